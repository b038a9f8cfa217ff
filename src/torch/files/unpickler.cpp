// SPDX-License-Identifier: Apache-2.0
#include "torch/files/unpickler.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace perfpred {
namespace {

/// A value on the pickle machine's stack. Shared with the memo, whose entries change after they were stored.
struct Item;
using ItemPtr = std::shared_ptr<Item>;

struct Item {
  enum Kind { none, number, text, tensor, dictionary, sequence, global, storage, object, mark };
  Kind kind = none;
  std::int64_t integer = 0;
  std::string name;            // text, or the type of a global or an object
  at::Tensor value;            // or the elements of a storage
  std::vector<ItemPtr> parts;  // a dictionary's keys and values in turn
};

struct StorageType {
  const char* storage;
  at::ScalarType type;
};
constexpr StorageType storage_types[] = {{"torch.FloatStorage", at::kFloat}, {"torch.DoubleStorage", at::kDouble},
                                         {"torch.HalfStorage", at::kHalf},   {"torch.BFloat16Storage", at::kBFloat16},
                                         {"torch.LongStorage", at::kLong},   {"torch.IntStorage", at::kInt},
                                         {"torch.ShortStorage", at::kShort}, {"torch.CharStorage", at::kChar},
                                         {"torch.ByteStorage", at::kByte},   {"torch.BoolStorage", at::kBool}};

/// Executes a pickle of protocol 2, but calls nothing: of objects of other classes only the type is kept.
class Unpickler {
 public:
  Unpickler(std::string_view pickle, TorchArchive& file) : rest_(pickle), file_(file) {}

  ItemPtr run() {
    while (true) {
      const char code = byte();
      if (code == '.') return pop();
      execute(code);
    }
  }

 private:
  [[noreturn]] static void damaged() { throw InputError("its pickle is damaged"); }

  std::string_view bytes(std::size_t count) {
    if (count > rest_.size()) damaged();
    const std::string_view part = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return part;
  }
  char byte() { return bytes(1).front(); }

  std::uint64_t unsigned_number(std::size_t size) { return little_endian(bytes(size)); }

  std::string line() {
    const auto end = rest_.find('\n');
    if (end == std::string_view::npos) damaged();
    std::string text(bytes(end));
    static_cast<void>(byte());
    return text;
  }

  void push(Item item) { stack_.push_back(std::make_shared<Item>(std::move(item))); }
  void push_number(std::int64_t value) { push({Item::number, value, {}, {}, {}}); }

  ItemPtr pop() {
    if (stack_.empty()) damaged();
    ItemPtr item = std::move(stack_.back());
    stack_.pop_back();
    return item;
  }

  const ItemPtr& top() const {
    if (stack_.empty()) damaged();
    return stack_.back();
  }

  /// Pops the items above the last mark, and the mark.
  std::vector<ItemPtr> pop_to_mark() {
    std::vector<ItemPtr> items;
    for (ItemPtr item = pop(); item->kind != Item::mark; item = pop()) items.push_back(std::move(item));
    std::reverse(items.begin(), items.end());
    return items;
  }

  void tuple(std::size_t count) {
    std::vector<ItemPtr> parts(count);
    for (std::size_t i = count; i-- > 0;) parts[i] = pop();
    push({Item::sequence, 0, {}, {}, std::move(parts)});
  }

  /// Adds to a dictionary. The contents of lists and objects are not kept.
  void add(const std::vector<ItemPtr>& items, bool pairs) {
    if (!pairs || top()->kind != Item::dictionary) return;
    if (items.size() % 2 != 0) damaged();
    auto& parts = top()->parts;
    parts.insert(parts.end(), items.begin(), items.end());
  }

  void remember(std::uint64_t key) { memo_[key] = top(); }

  void recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) damaged();
    stack_.push_back(found->second);
  }

  void push_long(std::size_t size) {  // little-endian, of the two's complement
    if (size > 8) {
      static_cast<void>(bytes(size));
      return push_number(-1);
    }
    const std::uint64_t value = unsigned_number(size);
    const std::size_t unused = 64 - 8 * size;
    push_number(size == 0 ? 0 : static_cast<std::int64_t>(value << unused) >> unused);
  }

  void push_called() {
    const ItemPtr arguments = pop();
    const ItemPtr callable = pop();
    push(call(*callable, *arguments));
  }

  void push_global() {
    const std::string module = line();
    push({Item::global, 0, module + "." + line(), {}, {}});
  }

  void set_item() {
    const ItemPtr value = pop();
    const ItemPtr key = pop();
    add({key, value}, true);
  }

  void check_protocol() {
    if (byte() != 2) throw InputError("its pickle is of another protocol than torch.save()'s own, 2");
  }

  /// What a code of Python's pickletools does.
  struct Operation {
    char code;
    void (*execute)(Unpickler& machine);
  };

  void execute(char code) {
    using Self = Unpickler&;
    static constexpr auto operations = std::to_array<Operation>({
        {'\x80', [](Self m) { m.check_protocol(); }},  // PROTO
        {'(',
         [](Self m) {
           m.push({Item::mark, 0, {}, {}, {}});
         }},                                                                                    // MARK
        {'N', [](Self m) { m.push({}); }},                                                      // NONE
        {'\x88', [](Self m) { m.push_number(1); }},                                             // NEWTRUE
        {'\x89', [](Self m) { m.push_number(0); }},                                             // NEWFALSE
        {'K', [](Self m) { m.push_number(static_cast<std::int64_t>(m.unsigned_number(1))); }},  // BININT1
        {'M', [](Self m) { m.push_number(static_cast<std::int64_t>(m.unsigned_number(2))); }},  // BININT2
        {'J', [](Self m) { m.push_number(static_cast<std::int32_t>(m.unsigned_number(4))); }},  // BININT
        {'\x8a', [](Self m) { m.push_long(m.unsigned_number(1)); }},                            // LONG1
        {'G', [](Self m) { static_cast<void>(m.bytes(8)), m.push_number(0); }},                 // BINFLOAT
        {'X',
         [](Self m) {
           m.push({Item::text, 0, std::string(m.bytes(m.unsigned_number(4))), {}, {}});
         }},                                                                          // BINUNICODE
        {')', [](Self m) { m.tuple(0); }},                                            // EMPTY_TUPLE
        {'\x85', [](Self m) { m.tuple(1); }},                                         // TUPLE1
        {'\x86', [](Self m) { m.tuple(2); }},                                         // TUPLE2
        {'\x87', [](Self m) { m.tuple(3); }},                                         // TUPLE3
        {'t', [](Self m) { m.push({Item::sequence, 0, {}, {}, m.pop_to_mark()}); }},  // TUPLE
        {']', [](Self m) { m.tuple(0); }},                                            // EMPTY_LIST
        {'\x8f', [](Self m) { m.tuple(0); }},                                         // EMPTY_SET
        {'}', [](Self m) { m.push({Item::dictionary, 0, {}, {}, {}}); }},             // EMPTY_DICT
        {'a', [](Self m) { m.add({m.pop()}, false); }},                               // APPEND
        {'e', [](Self m) { m.add(m.pop_to_mark(), false); }},                         // APPENDS
        {'\x90', [](Self m) { m.add(m.pop_to_mark(), false); }},                      // ADDITEMS
        {'s', [](Self m) { m.set_item(); }},                                          // SETITEM
        {'u', [](Self m) { m.add(m.pop_to_mark(), true); }},                          // SETITEMS
        {'q', [](Self m) { m.remember(m.unsigned_number(1)); }},                      // BINPUT
        {'r', [](Self m) { m.remember(m.unsigned_number(4)); }},                      // LONG_BINPUT
        {'h', [](Self m) { m.recall(m.unsigned_number(1)); }},                        // BINGET
        {'j', [](Self m) { m.recall(m.unsigned_number(4)); }},                        // LONG_BINGET
        {'c', [](Self m) { m.push_global(); }},                                       // GLOBAL
        {'\x81', [](Self m) { m.push_called(); }},                                    // NEWOBJ
        {'R', [](Self m) { m.push_called(); }},                                       // REDUCE
        {'b', [](Self m) { static_cast<void>(m.pop()); }},                            // BUILD
        {'Q', [](Self m) { m.push(m.storage(*m.pop())); }},                           // BINPERSID
    });
    const auto* found =
        std::find_if(operations.begin(), operations.end(), [code](const Operation& o) { return o.code == code; });
    if (found == operations.end()) {
      throw InputError(fmt::format("its pickle has an operation (0x{:02x}) that torch.save() does not write",
                                   static_cast<unsigned char>(code)));
    }
    found->execute(*this);
  }

  static const Item& part(const Item& tuple, std::size_t index, Item::Kind kind) {
    if (tuple.kind != Item::sequence || index >= tuple.parts.size() || tuple.parts[index]->kind != kind) damaged();
    return *tuple.parts[index];
  }

  static std::vector<std::int64_t> integers(const Item& tuple) {
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < tuple.parts.size(); ++i) values.push_back(part(tuple, i, Item::number).integer);
    return values;
  }

  Item call(const Item& callable, const Item& arguments) {
    if (callable.name == "collections.OrderedDict") return {Item::dictionary, 0, {}, {}, {}};
    if (callable.name == "torch._utils._rebuild_tensor_v2") {
      const Item& elements = part(arguments, 0, Item::storage);
      return {Item::tensor,
              0,
              {},
              view(elements.value, part(arguments, 1, Item::number).integer,
                   integers(part(arguments, 2, Item::sequence)), integers(part(arguments, 3, Item::sequence))),
              {}};
    }
    if (callable.name == "torch._utils._rebuild_parameter") return part(arguments, 0, Item::tensor);
    if (callable.name == "torch.jit._pickle.restore_type_tag") return part(arguments, 0, Item::dictionary);
    return {Item::object, 0, callable.name, {}, {}};
  }

  static at::Tensor view(const at::Tensor& elements, std::int64_t offset, const std::vector<std::int64_t>& sizes,
                         const std::vector<std::int64_t>& strides) {
    if (sizes.size() != strides.size() || offset < 0) damaged();
    std::int64_t last = offset;
    bool empty = false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::int64_t reach = 0;
      if (sizes[i] < 0 || strides[i] < 0) damaged();
      empty = empty || sizes[i] == 0;
      if (__builtin_mul_overflow(std::max<std::int64_t>(sizes[i] - 1, 0), strides[i], &reach) ||
          __builtin_add_overflow(last, reach, &last)) {
        damaged();
      }
    }
    if (!empty && last >= elements.numel()) damaged();
    return elements.as_strided(sizes, strides, offset);
  }

  /// A storage by its persistent id: ("storage", type, record, device, elements).
  Item storage(const Item& id) {
    const std::string& type_name = part(id, 1, Item::global).name;
    const std::string& record = part(id, 2, Item::text).name;
    const std::int64_t count = part(id, 4, Item::number).integer;
    const auto* type = std::find_if(std::begin(storage_types), std::end(storage_types),
                                    [&](const StorageType& t) { return type_name == t.storage; });
    if (type == std::end(storage_types)) throw InputError(fmt::format("it has numbers of type {}", type_name));
    at::Tensor& elements = storages_[record];
    if (!elements.defined()) {
      const std::string place = "data/" + record;
      const auto size = static_cast<std::int64_t>(at::elementSize(type->type));
      if (count < 0 || !file_.has(place) || static_cast<std::int64_t>(file_.size(place)) / size < count) damaged();
      const auto bytes = static_cast<std::size_t>(count * size);
      elements = at::empty({0}, at::TensorOptions().dtype(type->type));
      elements.set_(c10::Storage(c10::Storage::use_byte_size_t(), bytes, file_.map(place)), 0, {count}, {1});
    }
    return {Item::storage, 0, {}, elements, {}};
  }

  std::string_view rest_;
  TorchArchive& file_;
  std::vector<ItemPtr> stack_;
  std::map<std::uint64_t, ItemPtr> memo_;
  std::map<std::string, at::Tensor> storages_;
};

constexpr int deepest = 4;

/// @param depth  a dictionary may hold itself
SavedValue saved(const Item& item, int depth) {
  switch (item.kind) {
    case Item::text:
      return {item.name};
    case Item::tensor:
      return {item.value};
    case Item::dictionary: {
      if (depth == 0) break;
      SavedValue::Dictionary items;
      for (std::size_t i = 0; i < item.parts.size(); i += 2) {
        if (item.parts[i]->kind == Item::text)
          items.push_back({item.parts[i]->name, saved(*item.parts[i + 1], depth - 1)});
      }
      return {std::move(items)};
    }
    case Item::number:
      return {SavedValue::Other{"a number"}};
    case Item::sequence:
      return {SavedValue::Other{"a list"}};
    case Item::none:
      return {SavedValue::Other{"None"}};
    case Item::global:
    case Item::object:
      return {SavedValue::Other{"an object of " + item.name}};
    default:
      break;
  }
  return {SavedValue::Other{"something else"}};
}

}  // namespace

SavedValue unpickle(std::string_view pickle, TorchArchive& file) {
  return saved(*Unpickler(pickle, file).run(), deepest);
}

}  // namespace perfpred
