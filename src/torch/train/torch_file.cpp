// SPDX-License-Identifier: Apache-2.0
#include "torch/train/torch_file.h"

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <caffe2/serialize/crc_alt.h>
#include <caffe2/serialize/in_memory_adapter.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <perfpred/error.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <string_view>

#include "text/files.h"
#include "torch/device/torch_errors.h"

namespace perfpred {
namespace {

constexpr std::size_t keys_shown = 6;

constexpr const char* damage = "is no whole file of torch.save(): it is cut off or damaged";

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// The zip file, in memory.
class Archive {
 public:
  /// @param bytes  must outlive this
  explicit Archive(std::string_view bytes)
      : bytes_(bytes),
        reader_(
            std::make_shared<caffe2::serialize::MemoryReadAdapter>(bytes.data(), static_cast<off_t>(bytes.size()))) {}

  bool has(const std::string& record) { return reader_.hasRecord(record); }
  std::size_t size(const std::string& record) { return reader_.getRecordSize(record); }

  /// @throws InputError if the record is not what its checksum says, which LibTorch's reader leaves unread
  at::DataPtr read(const std::string& record) {
    auto [data, size] = reader_.getRecord(record);
    const std::uint32_t stated = checksum(record, size);
    if (stated != no_checksum && stated != crc32_fast(data.get(), size)) throw InputError(damage);
    return std::move(data);
  }

 private:
  static constexpr std::uint32_t no_checksum = 0;  // what torch.serialization.set_crc32_options(False) writes

  std::uint64_t number(std::size_t at, std::size_t size) const {
    if (at + size > bytes_.size()) throw InputError(damage);
    return little_endian(bytes_.substr(at, size));
  }

  /// CRC-32: behind the data if bit 3 of the header's flags says so, else in the header (APPNOTE.TXT of PKWARE, 4.3).
  std::uint32_t checksum(const std::string& record, std::size_t size) {
    const std::size_t header = reader_.getRecordHeaderOffset(record);
    const bool stored = number(header + 8, 2) == 0;
    if (!stored || size == 0) return no_checksum;
    const bool behind = (number(header + 6, 2) & 8U) != 0;
    const std::size_t at = behind ? reader_.getRecordOffset(record) + size + 4 : header + 14;
    return static_cast<std::uint32_t>(number(at, 4));
  }

  std::string_view bytes_;
  caffe2::serialize::PyTorchStreamReader reader_;
};

/// What a pickle's machine works on. Shared, for the memo's entries are changed after they were stored.
struct Item;
using ItemPtr = std::shared_ptr<Item>;

struct Item {
  enum Kind { none, number, text, tensor, dictionary, sequence, global, storage, object, mark };
  Kind kind = none;
  std::int64_t integer = 0;
  std::string name;            // text, or of a global, an object's type
  at::Tensor value;            // a storage's elements, too
  std::vector<ItemPtr> parts;  // of a dictionary: keys and values in turn
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

/// Executes a pickle (protocol 2, as torch.save() writes it) but calls nothing: what it would make of other classes
/// stays an object of which only the type is known.
class Unpickler {
 public:
  Unpickler(std::string_view pickle, Archive& file) : rest_(pickle), file_(file) {}

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

  /// What lies above the last mark, which goes too.
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

  /// Into a dictionary; of a list or an object nothing is kept.
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

  void execute(char code) {
    switch (code) {
      case '\x80':  // PROTO
        if (byte() != 2) throw InputError("its pickle is of another protocol than torch.save()'s own, 2");
        return;
      case '(':
        return push({Item::mark, 0, {}, {}, {}});
      case 'N':
        return push({});
      case '\x88':  // True
        return push_number(1);
      case '\x89':  // False
        return push_number(0);
      case 'K':
        return push_number(static_cast<std::int64_t>(unsigned_number(1)));
      case 'M':
        return push_number(static_cast<std::int64_t>(unsigned_number(2)));
      case 'J':
        return push_number(static_cast<std::int32_t>(unsigned_number(4)));
      case '\x8a': {  // a long of so many bytes
        const std::size_t size = unsigned_number(1);
        if (size > 8) {
          static_cast<void>(bytes(size));
          return push_number(-1);
        }
        const std::uint64_t value = unsigned_number(size);
        const std::size_t unused = 64 - 8 * size;
        return push_number(size == 0 ? 0 : static_cast<std::int64_t>(value << unused) >> unused);
      }
      case 'G':
        static_cast<void>(bytes(8));
        return push_number(0);
      case 'X':
        return push({Item::text, 0, std::string(bytes(unsigned_number(4))), {}, {}});
      case ')':
        return tuple(0);
      case '\x85':
        return tuple(1);
      case '\x86':
        return tuple(2);
      case '\x87':
        return tuple(3);
      case 't':
        return push({Item::sequence, 0, {}, {}, pop_to_mark()});
      case ']':
      case '\x8f':  // an empty set
        return push({Item::sequence, 0, {}, {}, {}});
      case '}':
        return push({Item::dictionary, 0, {}, {}, {}});
      case 'a':
        return add({pop()}, false);
      case 'e':
      case '\x90':  // items of a set
        return add(pop_to_mark(), false);
      case 's': {
        const ItemPtr value = pop();
        const ItemPtr key = pop();
        return add({key, value}, true);
      }
      case 'u':
        return add(pop_to_mark(), true);
      case 'q':
        return remember(unsigned_number(1));
      case 'r':
        return remember(unsigned_number(4));
      case 'h':
        return recall(unsigned_number(1));
      case 'j':
        return recall(unsigned_number(4));
      case 'c': {
        const std::string module = line();
        return push({Item::global, 0, module + "." + line(), {}, {}});
      }
      case '\x81':  // NEWOBJ
      case 'R': {
        const ItemPtr arguments = pop();
        const ItemPtr callable = pop();
        return push(call(*callable, *arguments));
      }
      case 'b':  // an object's attributes
        static_cast<void>(pop());
        return;
      case 'Q':
        return push(storage(*pop()));
      default:
        throw InputError(fmt::format("its pickle has an operation (0x{:02x}) that torch.save() does not write",
                                     static_cast<unsigned char>(code)));
    }
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
      elements = at::empty({count}, at::TensorOptions().dtype(type->type));
      const at::DataPtr data = file_.read(place);
      std::memcpy(elements.mutable_data_ptr(), data.get(), static_cast<std::size_t>(count * size));
    }
    return {Item::storage, 0, {}, elements, {}};
  }

  std::string_view rest_;
  Archive& file_;
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

const SavedValue* SavedValue::find(const std::string& key) const {
  const auto* items = std::get_if<Dictionary>(&is);
  if (items == nullptr) return nullptr;
  const auto found = std::find_if(items->begin(), items->end(), [&](const auto& item) { return item.key == key; });
  return found == items->end() ? nullptr : &found->value;
}

std::string SavedValue::what() const {
  if (std::holds_alternative<std::string>(is)) return "a text";
  if (std::holds_alternative<at::Tensor>(is)) return "a tensor";
  if (const auto* other = std::get_if<Other>(&is)) return other->type;
  const auto& items = std::get<Dictionary>(is);
  std::vector<std::string> keys;
  for (const auto& [key, value] : items) {
    if (keys.size() == keys_shown) {
      keys.emplace_back("...");
      break;
    }
    keys.push_back(
        fmt::format("{} ({})", key, std::holds_alternative<Dictionary>(value.is) ? "a dictionary" : value.what()));
  }
  return keys.empty() ? "an empty dictionary" : fmt::format("a dictionary of {}", fmt::join(keys, ", "));
}

SavedValue read_torch_file(const std::string& path) {
  const std::string bytes = read_file(path);
  if (bytes.substr(0, 2) != "PK") {
    const bool old = bytes.find("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19") <= 2;  // its magic number
    throw InputError(fmt::format("{}: {}", path,
                                 old ? "is of torch.save()'s old format; save it again without "
                                       "_use_new_zipfile_serialization=False"
                                     : "is no file of torch.save()"));
  }
  try {
    Archive file(bytes);
    if (!file.has("data.pkl")) throw InputError("is a zip file, but none of torch.save()");
    if (file.has("constants.pkl")) throw InputError("is a TorchScript module, not a state dictionary");
    const at::DataPtr pickle = file.read("data.pkl");
    return saved(*Unpickler({static_cast<const char*>(pickle.get()), file.size("data.pkl")}, file).run(), deepest);
  } catch (const c10::Error& error) {
    if (speaks_of_memory(error.what_without_backtrace())) throw;
    throw InputError(fmt::format("{}: {}", path, damage));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", path, error.what()));
  }
}

bool has_end(const std::string& path) {
  constexpr std::string_view end_record = "PK\x05\x06";
  constexpr std::streamoff end_size = 22;
  std::ifstream file(path, std::ios::binary);
  std::array<char, end_record.size()> found{};
  file.seekg(-end_size, std::ios::end);
  file.read(found.data(), found.size());
  return file && std::string_view(found.data(), found.size()) == end_record;
}

void write_torch_file(const std::vector<std::pair<std::string, std::string>>& texts, const std::string& tensors_name,
                      const std::vector<std::pair<std::string, at::Tensor>>& tensors, const std::string& path) {
  c10::impl::GenericDict document(c10::StringType::get(), c10::AnyType::get());
  for (const auto& [name, text] : texts) document.insert(c10::IValue(name), c10::IValue(text));
  c10::Dict<std::string, at::Tensor> numbers;
  for (const auto& [name, tensor] : tensors) numbers.insert(name, tensor.detach().cpu());
  document.insert(c10::IValue(tensors_name), c10::IValue(numbers));

  std::string pickle;
  // Without type tags, which torch.load() takes from nobody but torch.jit.
  torch::jit::Pickler pickler([&](const char* part, std::size_t size) { pickle.append(part, size); }, nullptr, nullptr,
                              nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(document);
  pickler.stop();

  AtomicFile out(path);
  std::exception_ptr refused;  // the writer's destructor would end the process with it
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* part, std::size_t size) {
    try {
      if (!refused) out.write({static_cast<const char*>(part), size});
    } catch (...) {
      refused = std::current_exception();
    }
    return size;
  });
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  std::size_t number = 0;
  for (const at::Tensor& tensor : pickler.tensorData()) {
    const auto data = torch::jit::getWriteableTensorData(tensor);
    writer.writeRecord(fmt::format("data/{}", number++), data.data(), data.sizeInBytes());
  }
  writer.writeEndOfFile();
  if (refused) std::rethrow_exception(refused);
  out.commit();
}

}  // namespace perfpred
