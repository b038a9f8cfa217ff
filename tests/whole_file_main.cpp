// SPDX-License-Identifier: Apache-2.0
// Runs all tests of a program. GoogleTest ends with 0 both if tests pass and if all skip themselves; CTest can tell
// these apart by the exit code alone, because words in the output of a failing test could look like either.
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  constexpr int all_skipped = 77;  // SKIP_RETURN_CODE in whole_file_test.cmake
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  if (result == 0 && tests.successful_test_count() == 0) return tests.skipped_test_count() > 0 ? all_skipped : 1;
  return result;
}
