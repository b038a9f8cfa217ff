// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <ctime>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "service/served_models.h"

namespace perfpred {

struct SlurmTableOptions {
  std::string file;
  bool enforces = false;  ///< Slurm's plugin sets limits; else it only writes down what is expected
  std::map<std::string, std::string, std::less<>> devices;  ///< by partition, of jobs that do not name one
  double startup_sec = 0;                                   ///< of jobs that do not say theirs
  std::size_t most = 4096;                                  ///< requests; beyond it those that came first are dropped
};

/// The requests of a cluster's jobs with their answers, in a file that integrations/slurm/job_submit.lua reads while a
/// job is submitted, without waiting for anybody. What the plugin does not find there it appends to a second file,
/// `FILE.requests`, as `PARTITION REQUEST`, and lets the job pass; from its next submission on the answer is there.
/// That file is emptied when the table has all of its answers, so that a service which is killed meanwhile loses none.
///
/// The table: a line `perfpred-slurm-table 1 written=SECONDS mode=observe|enforce rows=N bytes=N`, then a line for each
/// request, sorted by its bytes, so that it is found by bisection, of fields divided by tabs: `PARTITION REQUEST`,
/// `ok`, p05 in seconds, the limit in minutes, the verdict of memory, the text for AdminComment; or `PARTITION
/// REQUEST`, `refused`, why. It is replaced as a whole, and written again every refresh_sec: what is older is stale.
class SlurmTable {
 public:
  using Say = std::function<void(const std::string& line)>;
  static constexpr std::time_t refresh_sec = 10;
  static constexpr auto pause = std::chrono::milliseconds(250);  ///< between looks at the size of a file

  /// Reads the requests of the table that a former service left.
  /// @param models  outlive the table; the first one answers
  /// @throws InputError if there can be no such files; for a device of `options` that is not known
  SlurmTable(const ServedModels& models, SlurmTableOptions options, Say say);

  /// Answers what has been asked since, and anew what another model was asked, for a second at most; writes the table
  /// if it changed or is old. A disk that refuses is said, once for each reason.
  void refresh(std::time_t now);

 private:
  struct Row {
    std::string text;                              // fields behind the request
    std::weak_ptr<const ServedModel> answered_by;  // expired or another one: to be answered anew
  };

  [[nodiscard]] bool take_requests();
  void forget_requests();
  [[nodiscard]] bool answer_rows();
  bool add(std::string_view request);
  void write(std::time_t now) const;

  const ServedModels& models_;
  SlurmTableOptions options_;
  std::string requests_file_;
  Say say_;
  std::map<std::string, Row, std::less<>> rows_;  // sorted by bytes
  std::deque<std::string> order_;                 // of the rows, the first one first
  std::size_t taken_ = 0;                         // bytes of the file of requests that were read
  std::time_t written_ = 0;
  std::string complaint_;
};

/// One answer of the table, the fields behind the request, `ok` or `refused`: for tests.
/// @param job  `name=value;name=value` of a comment
[[nodiscard]] std::string slurm_row(const ServedModel& model, const SlurmTableOptions& options,
                                    std::string_view partition, std::string_view job);

}  // namespace perfpred
