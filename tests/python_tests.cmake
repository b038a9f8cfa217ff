# SPDX-License-Identifier: Apache-2.0
# The tests of python/; those of perfpred.capture and perfpred.measure where a Python with torch is: PERFPRED_PYTHON, the environment of scripts/setup.sh, or python3.
set(PERFPRED_PYTHON "" CACHE FILEPATH "A Python that has torch, for the tests of perfpred.capture and perfpred.measure")
set(cache "$ENV{PERFPRED_CACHE_DIR}")
if(NOT cache)
  set(cache "$ENV{XDG_CACHE_HOME}")
  if(NOT cache)
    set(cache "$ENV{HOME}/.cache")
  endif()
  string(APPEND cache "/perfpred")
endif()
file(GLOB pythons "${cache}/libtorch-*/bin/python3")
find_program(system_python python3)
set(python_with_torch)
foreach(python IN LISTS PERFPRED_PYTHON pythons system_python)
  execute_process(COMMAND ${python} -c "import importlib.util as u; raise SystemExit(u.find_spec('torch') is None)"
                  RESULT_VARIABLE lacks_torch OUTPUT_QUIET ERROR_QUIET)
  if(lacks_torch EQUAL 0)
    set(python_with_torch ${python})
    break()
  endif()
endforeach()

set(python_environment PYTHONPATH=${PROJECT_SOURCE_DIR}/python PYTHONDONTWRITEBYTECODE=1 ${test_cache}
                       PERFPRED_LIBRARY=$<TARGET_FILE:perfpred_c> PERFPRED_PREDICT=${PROJECT_BINARY_DIR}/bin/perfpred-predict)
# The objects need no torch, and where there is no NumPy they leave its tests out.
if(system_python)
  add_test(NAME python_objects COMMAND ${system_python} -m unittest -v test_predict test_inspect test_declarations
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/python/tests)
  set_tests_properties(python_objects PROPERTIES ENVIRONMENT "${python_environment}" LABELS python TIMEOUT 600)
endif()

if(python_with_torch)
  add_test(NAME python_capture COMMAND ${python_with_torch} -m unittest discover -v
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/python/tests)
  if(TARGET perfpred-train-net)
    add_test(NAME python_load_weights
             COMMAND ${python_with_torch} -W ignore ${CMAKE_CURRENT_SOURCE_DIR}/torch/load_weights.py
                     ${PROJECT_BINARY_DIR}/bin/perfpred-train-net ${CMAKE_CURRENT_BINARY_DIR}/load_weights)
    set_tests_properties(python_load_weights PROPERTIES LABELS torch TIMEOUT 600)
  endif()
  set_tests_properties(python_capture PROPERTIES
    ENVIRONMENT "${python_environment};PERFPRED_INSPECT=${PROJECT_BINARY_DIR}/bin/perfpred-inspect;PERFPRED_AGGREGATE=${PROJECT_BINARY_DIR}/bin/perfpred-aggregate"
    LABELS python TIMEOUT 900 COST 300)
else()
  add_test(NAME python_capture COMMAND ${CMAKE_COMMAND} -E echo "no Python with torch: the package perfpred is not tested")
  set_tests_properties(python_capture PROPERTIES SKIP_REGULAR_EXPRESSION "no Python with torch" LABELS python)
endif()
