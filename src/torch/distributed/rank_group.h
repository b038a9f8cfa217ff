// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <perfpred/error.h>

#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "torch/device/torch_errors.h"

namespace c10d {
class ProcessGroup;
}

namespace perfpred {

/// Another rank ended, or did not answer in time. What happened there, this rank does not know.
class RankLost : public Error {
 public:
  using Error::Error;
};

/// Runs code that talks to other ranks, and turns what gloo, NCCL and the store throw into RankLost.
template <class Function>
auto guard_ranks(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const c10::DistError& error) {
    throw RankLost(first_line_of(error.what_without_backtrace()));
  } catch (const c10::Error&) {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // gloo's
    throw RankLost(first_line_of(error.what()));
  }
}

/// The connections of the ranks that train one network together. Every rank makes its calls in the same order; each
/// waits for the others. When one rank's group ends, the others' calls throw RankLost, at the latest after
/// `lost_after_sec`.
class RankGroup {
 public:
  struct Impl;
  explicit RankGroup(std::unique_ptr<Impl> impl);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  static constexpr int lost_after_sec = 20;  ///< so much later than the others a rank may come to a call

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] const std::vector<int>& neighbours() const;  ///< process numbers of the other ranks on this machine

  [[nodiscard]] double highest(double here);    ///< of all ranks' values
  [[nodiscard]] double of_first(double value);  ///< rank 0's value
  [[nodiscard]] bool any(bool here) { return highest(here ? 1 : 0) > 0; }
  void meet() { static_cast<void>(highest(0)); }  ///< returns on no rank before all have called it

  /// Begins to sum a tensor up over the ranks, in place.
  /// @returns says whether that is done; asked to, it waits (on a GPU the current stream does)
  [[nodiscard]] std::function<bool(bool wait)> sum(const at::Tensor& tensor);

  [[nodiscard]] c10d::ProcessGroup& process_group();

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace perfpred
