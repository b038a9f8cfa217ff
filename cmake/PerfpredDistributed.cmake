# SPDX-License-Identifier: Apache-2.0
# Finds headers that LibTorch's own ones include and its packages leave out: gloo's, without which several replicas are
# refused, and NCCL's, for several GPUs. Both libraries are in LibTorch: nothing is linked.
#
# Sets perfpred_distributed_headers (folders) and perfpred_distributed_definitions.
set(perfpred_distributed_headers)
set(perfpred_distributed_definitions)
if(PERFPRED_WITH_GLOO)
  find_path(PERFPRED_GLOO_INCLUDE_DIR gloo/rendezvous/store.h)
  mark_as_advanced(PERFPRED_GLOO_INCLUDE_DIR)
  if(PERFPRED_GLOO_INCLUDE_DIR)
    list(APPEND perfpred_distributed_headers ${PERFPRED_GLOO_INCLUDE_DIR})
    list(APPEND perfpred_distributed_definitions PERFPRED_WITH_GLOO)
  elseif(NOT PERFPRED_WITH_GLOO STREQUAL "AUTO")
    message(FATAL_ERROR "perfpred: gloo's headers were not found (Debian: libgloo-dev)")
  endif()
endif()
if(PERFPRED_GLOO_INCLUDE_DIR AND TARGET torch_cuda)
  get_filename_component(packages ${TORCH_INSTALL_PREFIX} DIRECTORY)  # of a wheel
  find_path(PERFPRED_NCCL_INCLUDE_DIR nccl.h HINTS ${packages}/nvidia/nccl/include)
  mark_as_advanced(PERFPRED_NCCL_INCLUDE_DIR)
  if(PERFPRED_NCCL_INCLUDE_DIR)
    list(APPEND perfpred_distributed_headers ${PERFPRED_NCCL_INCLUDE_DIR})
    list(APPEND perfpred_distributed_definitions PERFPRED_WITH_NCCL)
  endif()
endif()
if(NOT perfpred_distributed_definitions)
  message(STATUS "perfpred: without gloo's headers, so without several replicas")
endif()
