// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files: records (8 bytes of length, its checksum, the bytes, their checksum) that hold messages of
// protocol buffers: Event {1 wall_time, 2 step, 5 summary}, Summary {1 value}, Value {1 tag, 2 simple_value, 8 tensor},
// TensorProto {4 tensor_content, 5 float_val}.
// https://github.com/tensorflow/tensorboard/tree/master/tensorboard/compat/proto
#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <bit>
#include <boost/crc.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "runs/logs/training_log.h"
#include "text/nearest_name.h"

namespace perfpred {
namespace {

constexpr std::size_t length_bytes = 8, checksum_bytes = 4;
constexpr std::uint64_t max_record_bytes = std::uint64_t{1} << 31U;  // of a message of protocol buffers
constexpr std::uint64_t most_of_scalars = std::uint64_t{1} << 24U;   // beyond it are graphs, images and sounds

template <class Number>
Number number_at(std::string_view bytes) {
  static_assert(std::endian::native == std::endian::little);
  Number number{};
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

/// CRC-32C, rotated and shifted as in TensorFlow's record files.
std::uint32_t masked_checksum(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<std::uint32_t>(crc.checksum()), 15) + 0xa282ead8U;
}

bool begins_with_record(std::string_view bytes) {
  return bytes.size() >= length_bytes + checksum_bytes &&
         masked_checksum(bytes.substr(0, length_bytes)) == number_at<std::uint32_t>(bytes.substr(length_bytes));
}

/// The records of a file. One that its writer did not finish counts as not written.
class RecordReader {
 public:
  explicit RecordReader(const std::string& path)
      : path_(path), in_(path, std::ios::binary), left_(std::filesystem::file_size(path)) {}

  /// The next record that may hold scalars; others are passed over.
  /// @returns false at the end. @throws InputError if a checksum is wrong
  [[nodiscard]] bool next(std::string& record) {
    std::string head, checksum;
    while (take(length_bytes + checksum_bytes, head)) {
      const auto length = number_at<std::uint64_t>(head);
      if (!begins_with_record(head) || length > max_record_bytes) fail();
      if (length > most_of_scalars) {
        if (!pass_over(length + checksum_bytes)) return false;
        continue;
      }
      if (!take(length, record) || !take(checksum_bytes, checksum)) return false;
      if (masked_checksum(record) != number_at<std::uint32_t>(checksum)) fail();
      return true;
    }
    return false;
  }

  [[noreturn]] void fail() const {
    throw InputError(fmt::format("{}: is damaged, {} bytes before its end", path_, left_));
  }

 private:
  bool take(std::uint64_t size, std::string& bytes) {
    if (size > left_) return false;
    bytes.resize(size);
    if (!in_.read(bytes.data(), static_cast<std::streamsize>(size))) {
      throw InputError(fmt::format("{}: cannot be read", path_));
    }
    left_ -= size;
    return true;
  }

  bool pass_over(std::uint64_t size) {
    if (size > left_) return false;
    in_.seekg(static_cast<std::streamoff>(size), std::ios::cur);
    left_ -= size;
    return true;
  }

  const std::string& path_;
  std::ifstream in_;
  std::uint64_t left_;
};

/// A field of a message: its number, and what it holds.
struct WireField {
  std::uint64_t number = 0, integer = 0;
  std::string_view bytes;
};

bool take_integer(std::string_view& rest, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool take_bytes(std::string_view& rest, std::uint64_t size, std::string_view& bytes) {
  if (size > rest.size()) return false;
  bytes = rest.substr(0, size);
  rest.remove_prefix(size);
  return true;
}

/// @returns false if the message is not well-formed
bool take_field(std::string_view& rest, WireField& field) {
  enum WireType : std::uint8_t { integer = 0, eight_bytes = 1, counted = 2, four_bytes = 5 };
  std::uint64_t key = 0, size = 0;
  if (!take_integer(rest, key)) return false;
  field = {key >> 3U, 0, {}};
  switch (key & 7U) {
    case integer:
      return take_integer(rest, field.integer);
    case eight_bytes:
      return take_bytes(rest, 8, field.bytes);
    case counted:
      return take_integer(rest, size) && take_bytes(rest, size, field.bytes);
    case four_bytes:
      return take_bytes(rest, 4, field.bytes);
    default:
      return false;
  }
}

constexpr std::string_view keras_prefix = "epoch_";  // its callback writes epoch_loss, ... once an epoch

class EventReader {
 public:
  explicit EventReader(const std::string& path) : path_(path) {}

  void read() {
    RecordReader records(path_);
    for (std::string record; records.next(record);) {
      if (!take_event(record)) records.fail();
    }
  }

  [[nodiscard]] TrainingLog result(const RunFacts& facts) {
    log_.framework = "tensorboard";
    if (begin_) log_.timestamp_utc = utc_text(*begin_);
    const Timing counted = counted_by(facts);
    const std::vector<LoggedPoint>& series = longest(counts_epochs() ? keras_prefix : "");
    if (counted == Timing::steps) {
      log_.step_sec = median_step_sec(series, path_);
      log_.note = "median of logged intervals";
    } else {
      set_epochs(series);
      log_.note = "epochs with all that lies between them";
    }
    return std::move(log_);
  }

 private:
  bool take_event(std::string_view rest) {
    double time = 0, step = 0;
    std::vector<std::string_view> summaries;
    for (WireField field; !rest.empty();) {
      if (!take_field(rest, field)) return false;
      if (field.number == 1 && field.bytes.size() == 8) time = number_at<double>(field.bytes);
      if (field.number == 2) step = static_cast<double>(static_cast<std::int64_t>(field.integer));
      if (field.number == 5) summaries.push_back(field.bytes);
    }
    if (!begin_) begin_ = time;
    return std::all_of(summaries.begin(), summaries.end(), [&](std::string_view summary) {
      return take_summary(summary, {step, time});
    });
  }

  bool take_summary(std::string_view rest, const LoggedPoint& point) {
    for (WireField field; !rest.empty();) {
      if (!take_field(rest, field) || (field.number == 1 && !take_value(field.bytes, point))) return false;
    }
    return true;
  }

  bool take_value(std::string_view rest, const LoggedPoint& point) {
    std::string tag;
    std::optional<double> value;
    for (WireField field; !rest.empty();) {
      if (!take_field(rest, field)) return false;
      if (field.number == 1) tag = field.bytes;
      if (field.number == 2 && field.bytes.size() == 4) value = number_at<float>(field.bytes);
      if (field.number == 8 && !take_scalar(field.bytes, value)) return false;
    }
    if (!value) return true;  // a picture, a histogram, a text
    // The first of a step, since an evaluation may lie between them.
    if (std::vector<LoggedPoint>& points = series_[tag]; points.empty() || points.back().step != point.step) {
      points.push_back(point);
    }
    if (is_test_accuracy(tag)) log_.test_acc = value;
    return true;
  }

  static bool take_scalar(std::string_view rest, std::optional<double>& value) {
    for (WireField field; !rest.empty();) {
      if (!take_field(rest, field)) return false;
      if ((field.number == 4 || field.number == 5) && field.bytes.size() == 4) value = number_at<float>(field.bytes);
    }
    return true;
  }

  [[nodiscard]] bool counts_epochs() const {
    const auto first = series_.lower_bound(keras_prefix);
    return first != series_.end() && first->first.starts_with(keras_prefix);
  }

  [[nodiscard]] Timing counted_by(const RunFacts& facts) const {
    if (facts.counted) return *facts.counted;
    if (counts_epochs()) return Timing::epochs;
    // Lightning's and Hugging Face's loggers write the epoch at each logged step.
    if (series_.contains("epoch") || series_.contains("train/epoch")) return Timing::steps;
    throw InputError(path_ + ": does not say whether it counts training steps or epochs: give counted=steps or epochs");
  }

  /// Of the losses in training, or of whatever is not of an evaluation, the series of most points.
  [[nodiscard]] const std::vector<LoggedPoint>& longest(std::string_view prefix) const {
    static const std::vector<LoggedPoint> none;
    const std::vector<LoggedPoint>* best = &none;
    for (const char* part : {"loss", ""}) {
      for (const auto& [tag, points] : series_) {
        const auto has = [name = bare(tag)](const char* text) { return name.find(text) != std::string::npos; };
        if (!tag.starts_with(prefix) || !has(part) || has("val") || has("test")) continue;
        if (points.size() > best->size()) best = &points;
      }
      if (!best->empty()) break;
    }
    return *best;
  }

  void set_epochs(const std::vector<LoggedPoint>& points) {
    LoggedPoint last{points.empty() ? 0 : points.front().step - 1, begin_.value_or(0)};
    for (const LoggedPoint& point : points) {
      if (point.step != last.step + 1 || !(point.sec > last.sec)) {
        throw InputError(fmt::format("{}: epoch {} at {:.3f} s follows epoch {} at {:.3f} s; a log holds one run",
                                     path_, point.step, point.sec, last.step, last.sec));
      }
      log_.epoch_times.push_back(point.sec - last.sec);
      last = point;
    }
    log_.epochs = static_cast<int>(points.size());
  }

  const std::string& path_;
  TrainingLog log_;
  std::optional<double> begin_;                                          // time of the first event, in Unix seconds
  std::map<std::string, std::vector<LoggedPoint>, std::less<>> series_;  // by tag
};

TrainingLog read_events(const std::string& path, const RunFacts& facts) {
  EventReader reader(path);
  reader.read();
  return reader.result(facts);
}

}  // namespace

const LogFormat event_file_format = {"TensorBoard", [](const LogHead& head) { return begins_with_record(head.bytes); },
                                     read_events};

}  // namespace perfpred
