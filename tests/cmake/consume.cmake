# SPDX-License-Identifier: Apache-2.0
# Configures, builds and runs the external project SOURCE in BINARY, as its author would:
#   cmake -DSOURCE= -DBINARY= -DGENERATOR= -DCOMPILER= -DARGUMENTS= [-DWITHOUT_TORCH=ON] [-DPIPELINE_RUNS=] -P consume.cmake
# WITHOUT_TORCH also hides every LibTorch from it, and checks that the program is linked to none.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(WITHOUT_TORCH)
  set(ENV{PERFPRED_CACHE_DIR} ${BINARY}/no-cache)
  unset(ENV{Torch_DIR})
  unset(ENV{CMAKE_PREFIX_PATH})
endif()
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER} ${ARGUMENTS})
run(${CMAKE_COMMAND} --build ${BINARY} --target consumer)
run(${BINARY}/consumer)

# The example of the library's users, on runs of data/.
if(PIPELINE_RUNS)
  run(${CMAKE_COMMAND} --build ${BINARY} --target pipeline)
  file(REMOVE ${BINARY}/own_runs.csv)
  run(${BINARY}/pipeline ${PIPELINE_RUNS} ${BINARY}/own_runs.csv)
endif()

if(WITHOUT_TORCH)
  execute_process(COMMAND ldd ${BINARY}/consumer OUTPUT_VARIABLE libraries COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n\t]+" libraries "${libraries}")
  foreach(library IN LISTS libraries)
    string(REGEX REPLACE " .*" "" name "${library}")
    message(STATUS "linked: ${name}")
    if(name MATCHES "torch|c10|cuda|cudnn|xgboost|Cbc")
      message(FATAL_ERROR "a consumer of perfpred::core is linked to ${name}")
    endif()
  endforeach()
endif()
