# SPDX-License-Identifier: Apache-2.0
# Finds LibTorch: the user's own (Torch_DIR, CMAKE_PREFIX_PATH), else the one that scripts/setup.sh keeps in the user's
# cache. Sets Torch_FOUND and what TorchConfig.cmake sets. To be included at the top level of a project, not called from
# a function: Torch enables a language.

# Torch's CMake files find out device architectures by asking a GPU, and fail where there is none.
if(NOT DEFINED TORCH_CUDA_ARCH_LIST)
  set(TORCH_CUDA_ARCH_LIST "8.0;9.0")
endif()

set(_perfpred_cache "$ENV{PERFPRED_CACHE_DIR}")
if(NOT _perfpred_cache)
  set(_perfpred_cache "$ENV{XDG_CACHE_HOME}")
  if(NOT _perfpred_cache)
    set(_perfpred_cache "$ENV{HOME}/.cache")
  endif()
  string(APPEND _perfpred_cache "/perfpred")
endif()
file(GLOB _perfpred_markers "${_perfpred_cache}/libtorch-*/complete")
set(_perfpred_torch_paths)
set(_perfpred_nvcc_paths)
foreach(_perfpred_marker IN LISTS _perfpred_markers)
  cmake_path(GET _perfpred_marker PARENT_PATH _perfpred_venv)
  file(GLOB _perfpred_site "${_perfpred_venv}/lib/python3*/site-packages")
  list(APPEND _perfpred_torch_paths ${_perfpred_site}/torch)
  list(APPEND _perfpred_nvcc_paths ${_perfpred_site}/nvidia/cu13/bin)
endforeach()

# Torch's CMake files also want a CUDA toolkit: the user's choice, else the one that setup.sh put beside LibTorch where
# the machine had none, else the machine's.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(PERFPRED_NVCC nvcc PATHS ${_perfpred_nvcc_paths} NO_DEFAULT_PATH)
  find_program(PERFPRED_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(PERFPRED_NVCC)
  if(PERFPRED_NVCC)
    file(REAL_PATH ${PERFPRED_NVCC} _perfpred_nvcc)
    cmake_path(GET _perfpred_nvcc PARENT_PATH _perfpred_cuda)
    cmake_path(GET _perfpred_cuda PARENT_PATH _perfpred_cuda)
    set(CMAKE_CUDA_COMPILER ${PERFPRED_NVCC} CACHE FILEPATH "CUDA compiler")
    set(CUDA_TOOLKIT_ROOT_DIR ${_perfpred_cuda} CACHE PATH "CUDA toolkit")
  endif()
endif()

# TorchConfig.cmake stops the configuration where it finds no toolkit.
if(PERFPRED_WITH_TORCH STREQUAL "AUTO" AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  message(STATUS "perfpred: no CUDA compiler, so LibTorch is not looked for")
else()
  # They report at length, with warnings about what nothing here uses. --log-level=STATUS shows it.
  set(_perfpred_log_level "${CMAKE_MESSAGE_LOG_LEVEL}")
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
  find_package(Torch QUIET CONFIG PATHS ${PERFPRED_BUILT_WITH_TORCH} ${_perfpred_torch_paths})
  set(CMAKE_MESSAGE_LOG_LEVEL "${_perfpred_log_level}")
endif()
