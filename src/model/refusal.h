// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/error.h>
#include <perfpred/job_prediction.h>

#include <exception>
#include <new>
#include <string>

namespace perfpred {

/// Why one of many jobs has no answer.
struct Refusal {
  JobStatus status;
  std::string error;  ///< one line
};

/// Of the exception that is being handled, which must be a std::exception.
inline Refusal refusal() {
  try {
    throw;
  } catch (const InputError& error) {
    return {JobStatus::wrong_input, error.what()};
  } catch (const ModelError& error) {
    return {JobStatus::wrong_input, error.what()};
  } catch (const std::bad_alloc&) {
    return {JobStatus::failed, "out of memory"};
  } catch (const std::exception& error) {
    return {JobStatus::failed, error.what()};
  }
}

}  // namespace perfpred
