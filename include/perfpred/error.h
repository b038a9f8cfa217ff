// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <stdexcept>

namespace perfpred {

/// Anything that went wrong; what() is one line for the person who ran the program. Thrown as such for failures at run
/// time (a full disk, a network that will not build).
class PERFPRED_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the user gave is wrong: a file, an option, a value. Starts with `file:line:` where there is one.
class PERFPRED_API InputError : public Error {
 public:
  using Error::Error;
};

/// A model file that cannot be used: unknown format, missing field, another kind.
class PERFPRED_API ModelError : public Error {
 public:
  using Error::Error;
};

}  // namespace perfpred
