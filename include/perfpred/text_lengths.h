// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace perfpred {

/// Lengths of the texts that a language model is trained on, in words of its vocabulary.
class PERFPRED_API TextLengths {
 public:
  /// Of all texts of an epoch. @throws InputError for none, and for one below 1 or above 2^40
  explicit TextLengths(std::vector<std::int64_t> lengths);

  /// `mean=600,p95=1800,max=4096`, or the path of a file with one length a line. A summary stands for lengths whose
  /// logarithm is normal (as of posts on the Internet: Sobkowicz et al., EPJ Data Science 2, 2013), none above the
  /// longest.
  /// @throws InputError for a file that cannot be read, with file and line for a line that is no length, for a summary
  /// that lacks a number, and for numbers that no such lengths have
  [[nodiscard]] static TextLengths parse(const std::string& text);

  /// Texts of an epoch; empty where a summary does not say it.
  [[nodiscard]] std::optional<std::int64_t> texts() const;
  [[nodiscard]] double mean() const;
  [[nodiscard]] std::int64_t quantile(double share) const;  ///< @param share  0 to 1
  [[nodiscard]] std::int64_t longest() const { return sorted_.back(); }

  /// With texts of more than `most` words cut off there. @param most  >= 1
  [[nodiscard]] TextLengths cut(std::int64_t most) const;

  /// Words of the longest text of a batch, which others are padded to: as many equally frequent ones, in ascending
  /// order.
  /// @param batch    texts, >= 1
  /// @param grouped  texts of alike lengths come together: 50 batches at a time are drawn and then sorted, as
  ///                 `group_by_length` of Hugging Face's Trainer does
  [[nodiscard]] std::vector<double> widths(std::int64_t batch, bool grouped) const;

 private:
  std::vector<std::int64_t> sorted_;  // of a summary so many that stand for all
  bool is_summary_ = false;
};

}  // namespace perfpred
