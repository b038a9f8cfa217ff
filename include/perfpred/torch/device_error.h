// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/error.h>

namespace perfpred {

/// A device that is not there or stopped answering.
class PERFPRED_API DeviceError : public Error {
 public:
  using Error::Error;
};

/// The device had too little memory for the work.
class PERFPRED_API OutOfMemory : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace perfpred
