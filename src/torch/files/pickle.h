// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// A value in a pickle. Nothing is called: of what a pickle would make by a call, the call is kept.
struct PickleValue {
  enum Kind { none, number, text, dictionary, sequence, global, call, persistent, mark };
  Kind kind = none;
  std::int64_t integer = 0;  ///< a number's value; -1 for one of more than 64 bits, 0 for a real number
  std::string_view bytes;    ///< of a text (UTF-8) or of bytes, as they stand in the pickle
  std::string name;          ///< "torch.nn.modules.conv.Conv2d": of a global, or what is called
  /// Of a dictionary the keys and values in turn; of a list, a tuple or a set the items; of a call the arguments (a
  /// tuple) and, if the object has one, its state; of a persistent value its id.
  std::vector<const PickleValue*> parts;

  /// The value of a key (ASCII; a text or bytes) of a dictionary; null if this is no dictionary or has no such key.
  [[nodiscard]] const PickleValue* find(std::string_view key) const;
};

/// A pickle of Python, of the protocols 2 to 5. Values may hold one another or themselves, and be nested without end:
/// who walks through them has to bound the depth.
class Pickle {
 public:
  /// @param bytes  has to outlive this
  /// @throws InputError for a damaged pickle, an operation that these protocols do not have, or more than 10 million
  /// values
  explicit Pickle(std::string_view bytes);

  [[nodiscard]] const PickleValue& value() const { return *value_; }

 private:
  std::deque<PickleValue> values_;  // all of them, so that none has to free another
  const PickleValue* value_;
};

}  // namespace perfpred
