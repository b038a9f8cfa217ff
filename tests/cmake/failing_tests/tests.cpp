// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>

#ifdef PASSES
TEST(Some, Pass) {}
TEST(Some, Skip) { GTEST_SKIP(); }
#endif
#ifdef FAILS
TEST(All, Fail) { FAIL(); }
#endif
#ifdef FAILS_AND_SKIPS
TEST(One, Fails) { FAIL(); }
TEST(Another, Skips) { GTEST_SKIP(); }
#endif
#ifdef CRASHES
TEST(All, Crash) { std::abort(); }
#endif
#ifdef SKIPS
TEST(All, Skip) { GTEST_SKIP(); }
#endif
