// SPDX-License-Identifier: Apache-2.0
#include "torch/files/pickle.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "torch/files/torch_archive.h"

namespace perfpred {
namespace {

using Value = PickleValue;

constexpr std::size_t most_values = 10'000'000;  // 0.9 GB; a checkpoint of a large network has some 100,000
constexpr unsigned char newest_protocol = 5;

[[noreturn]] void damaged() { throw InputError("its pickle is damaged"); }

/// The stack machine of Python's pickletools.
class PickleMachine {
 public:
  PickleMachine(std::string_view pickle, std::deque<Value>& values) : rest_(pickle), values_(values) {}

  const Value* run() {
    while (true) {
      const char code = bytes(1).front();
      if (code == '.') return pop();
      execute(code);
    }
  }

 private:
  std::string_view bytes(std::uint64_t count) {
    if (count > rest_.size()) damaged();
    const std::string_view part = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return part;
  }

  std::uint64_t unsigned_number(std::size_t size) { return little_endian(bytes(size)); }

  std::string_view line() {
    const auto end = rest_.find('\n');
    if (end == std::string_view::npos) damaged();
    const std::string_view text = bytes(end);
    static_cast<void>(bytes(1));
    return text;
  }

  Value& push(Value value) {
    if (values_.size() == most_values) throw InputError("its pickle has more than 10 million values");
    values_.push_back(std::move(value));
    stack_.push_back(&values_.back());
    return values_.back();
  }
  void push_number(std::int64_t value) { push({Value::number, value, {}, {}, {}}); }
  void push_text(std::size_t size_bytes) { push({Value::text, 0, bytes(unsigned_number(size_bytes)), {}, {}}); }
  void push_empty(Value::Kind kind) { push({kind, 0, {}, {}, {}}); }

  Value* pop() {
    if (stack_.empty()) damaged();
    Value* value = stack_.back();
    stack_.pop_back();
    return value;
  }

  Value& top() {
    if (stack_.empty()) damaged();
    return *stack_.back();
  }

  /// Pops the values above the last mark, and the mark.
  std::vector<const Value*> pop_to_mark() {
    std::vector<const Value*> items;
    for (const Value* item = pop(); item->kind != Value::mark; item = pop()) items.push_back(item);
    std::reverse(items.begin(), items.end());
    return items;
  }

  void push_sequence(std::vector<const Value*> items) { push({Value::sequence, 0, {}, {}, std::move(items)}); }

  void push_tuple(std::size_t count) {
    std::vector<const Value*> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_sequence(std::move(items));
  }

  /// Adds to the container on top. What a call made is no container: its items are not kept.
  void add(const std::vector<const Value*>& items, Value::Kind kind) {
    if (kind == Value::dictionary && items.size() % 2 != 0) damaged();
    if (top().kind == kind) top().parts.insert(top().parts.end(), items.begin(), items.end());
  }

  void set_item() {
    const Value* value = pop();
    const Value* key = pop();
    add({key, value}, Value::dictionary);
  }

  void push_long(std::uint64_t size) {  // little-endian, of the two's complement
    if (size > 8) {
      static_cast<void>(bytes(size));
      return push_number(-1);
    }
    const std::uint64_t value = unsigned_number(size);
    const std::size_t unused = 64 - 8 * size;
    push_number(size == 0 ? 0 : static_cast<std::int64_t>(value << unused) >> unused);
  }

  void push_global() {
    std::string name(line());
    (name += '.') += line();
    push({Value::global, 0, {}, std::move(name), {}});
  }

  void push_stack_global() {
    const Value* name = pop();
    const Value* module = pop();
    if (name->kind != Value::text || module->kind != Value::text) damaged();
    push({Value::global, 0, {}, fmt::format("{}.{}", module->bytes, name->bytes), {}});
  }

  /// @param has_keywords  whether a dictionary of keyword arguments is on top, which is not kept
  void push_call(bool has_keywords = false) {
    if (has_keywords) static_cast<void>(pop());
    const Value* arguments = pop();
    const Value* called = pop();
    if (called->name == "collections.OrderedDict") return push_empty(Value::dictionary);
    push({Value::call, 0, {}, called->name, {arguments}});
  }

  void set_state() {
    const Value* state = pop();
    if (top().kind == Value::call) top().parts.push_back(state);
  }

  void push_persistent() {
    const Value* id = pop();
    push({Value::persistent, 0, {}, {}, {id}});
  }

  void remember(std::uint64_t key) { memo_[key] = &top(); }

  void recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) damaged();
    stack_.push_back(found->second);
  }

  void check_protocol() {
    const auto protocol = static_cast<unsigned char>(bytes(1).front());
    if (protocol < 2 || protocol > newest_protocol) {
      throw InputError(fmt::format("its pickle is of protocol {}; 2 to {} are read", protocol, newest_protocol));
    }
  }

  /// What some codes of Python's pickletools do.
  struct Operation {
    std::string_view codes;
    void (*execute)(PickleMachine& machine);
  };

  void execute(char code) {
    using M = PickleMachine&;
    using std::int32_t;
    using std::int64_t;
    static constexpr auto operations = std::to_array<Operation>({
        {"\x80", [](M m) { m.check_protocol(); }},                                      // PROTO
        {"\x95", [](M m) { static_cast<void>(m.bytes(8)); }},                           // FRAME
        {"(", [](M m) { m.push_empty(Value::mark); }},                                  // MARK
        {"0", [](M m) { static_cast<void>(m.pop()); }},                                 // POP
        {"1", [](M m) { static_cast<void>(m.pop_to_mark()); }},                         // POP_MARK
        {"N", [](M m) { m.push_empty(Value::none); }},                                  // NONE
        {"\x88", [](M m) { m.push_number(1); }},                                        // NEWTRUE
        {"\x89", [](M m) { m.push_number(0); }},                                        // NEWFALSE
        {"K", [](M m) { m.push_number(static_cast<int64_t>(m.unsigned_number(1))); }},  // BININT1
        {"M", [](M m) { m.push_number(static_cast<int64_t>(m.unsigned_number(2))); }},  // BININT2
        {"J", [](M m) { m.push_number(static_cast<int32_t>(m.unsigned_number(4))); }},  // BININT
        {"\x8a", [](M m) { m.push_long(m.unsigned_number(1)); }},                       // LONG1
        {"\x8b", [](M m) { m.push_long(m.unsigned_number(4)); }},                       // LONG4
        {"G", [](M m) { static_cast<void>(m.bytes(8)), m.push_number(0); }},            // BINFLOAT
        {"\x8cUC", [](M m) { m.push_text(1); }},                    // SHORT_BINUNICODE, SHORT_BINSTRING, SHORT_BINBYTES
        {"XTB", [](M m) { m.push_text(4); }},                       // BINUNICODE, BINSTRING, BINBYTES
        {"\x8d\x8e\x96", [](M m) { m.push_text(8); }},              // BINUNICODE8, BINBYTES8, BYTEARRAY8
        {")]\x8f", [](M m) { m.push_tuple(0); }},                   // EMPTY_TUPLE, EMPTY_LIST, EMPTY_SET
        {"\x85", [](M m) { m.push_tuple(1); }},                     // TUPLE1
        {"\x86", [](M m) { m.push_tuple(2); }},                     // TUPLE2
        {"\x87", [](M m) { m.push_tuple(3); }},                     // TUPLE3
        {"tl\x91", [](M m) { m.push_sequence(m.pop_to_mark()); }},  // TUPLE, LIST, FROZENSET
        {"}", [](M m) { m.push_empty(Value::dictionary); }},        // EMPTY_DICT
        {"a", [](M m) { m.add({m.pop()}, Value::sequence); }},      // APPEND
        {"e\x90", [](M m) { m.add(m.pop_to_mark(), Value::sequence); }},  // APPENDS, ADDITEMS
        {"s", [](M m) { m.set_item(); }},                                 // SETITEM
        {"u", [](M m) { m.add(m.pop_to_mark(), Value::dictionary); }},    // SETITEMS
        {"q", [](M m) { m.remember(m.unsigned_number(1)); }},             // BINPUT
        {"r", [](M m) { m.remember(m.unsigned_number(4)); }},             // LONG_BINPUT
        {"\x94", [](M m) { m.remember(m.memo_.size()); }},                // MEMOIZE
        {"h", [](M m) { m.recall(m.unsigned_number(1)); }},               // BINGET
        {"j", [](M m) { m.recall(m.unsigned_number(4)); }},               // LONG_BINGET
        {"c", [](M m) { m.push_global(); }},                              // GLOBAL
        {"\x93", [](M m) { m.push_stack_global(); }},                     // STACK_GLOBAL
        {"\x81R", [](M m) { m.push_call(); }},                            // NEWOBJ, REDUCE
        {"\x92", [](M m) { m.push_call(true); }},                         // NEWOBJ_EX
        {"b", [](M m) { m.set_state(); }},                                // BUILD
        {"Q", [](M m) { m.push_persistent(); }},                          // BINPERSID
    });
    const auto* found = std::find_if(operations.begin(), operations.end(),
                                     [code](const Operation& o) { return o.codes.find(code) != o.codes.npos; });
    if (found == operations.end()) {
      throw InputError(fmt::format("its pickle has an operation (0x{:02x}) that protocols 2 to {} do not write",
                                   static_cast<unsigned char>(code), newest_protocol));
    }
    found->execute(*this);
  }

  std::string_view rest_;
  std::deque<Value>& values_;
  std::vector<Value*> stack_;
  std::unordered_map<std::uint64_t, Value*> memo_;
};

}  // namespace

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != dictionary) return nullptr;
  for (std::size_t i = 0; i < parts.size(); i += 2) {
    const PickleValue* entry = parts[i];
    // Bytes as Python 3 writes them in protocol 2: _codecs.encode(text, 'latin1').
    if (entry->kind == call && entry->name == "_codecs.encode" && !entry->parts.front()->parts.empty()) {
      entry = entry->parts.front()->parts.front();
    }
    if (entry->kind == text && entry->bytes == key) return parts[i + 1];
  }
  return nullptr;
}

Pickle::Pickle(std::string_view bytes) : value_(PickleMachine(bytes, values_).run()) {}

}  // namespace perfpred
