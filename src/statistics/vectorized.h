// SPDX-License-Identifier: Apache-2.0
#pragma once

// The thread sanitizer is set up after clones are chosen. GCC and Clang tell of it in different ways.
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define PERFPRED_ONE_CLONE
#endif
#elif defined(__SANITIZE_THREAD__)
#define PERFPRED_ONE_CLONE
#endif

/// In front of a function: compiled for AVX2 and AVX-512 too. At run time the best that the machine has is taken.
/// Instruction sets, not processors: GCC takes a clone for `arch=haswell` on that generation alone.
#if defined(__x86_64__) && !defined(PERFPRED_ONE_CLONE)
#define PERFPRED_VECTORIZED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PERFPRED_VECTORIZED
#endif
