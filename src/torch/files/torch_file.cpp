// SPDX-License-Identifier: Apache-2.0
#include "torch/files/torch_file.h"

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <perfpred/error.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <algorithm>
#include <array>
#include <exception>
#include <fstream>
#include <string_view>

#include "text/files.h"
#include "torch/device/torch_errors.h"
#include "torch/files/torch_archive.h"
#include "torch/files/unpickler.h"

namespace perfpred {
namespace {

constexpr std::size_t keys_shown = 6;

/// The tensor with its elements side by side in memory, in any order of the axes.
at::Tensor dense(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor.detach() : tensor.detach().contiguous();
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
  std::ifstream begin(path, std::ios::binary);
  if (!begin) throw InputError(fmt::format("{}: cannot be read", path));
  std::string magic(14, '\0');
  begin.read(magic.data(), static_cast<std::streamsize>(magic.size()));
  if (!magic.starts_with("PK")) {
    const bool old = magic.find("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19") <= 2;
    throw InputError(fmt::format("{}: {}", path,
                                 old ? "has torch.save()'s old format; save it again without "
                                       "_use_new_zipfile_serialization=False"
                                     : "is not a file of torch.save()"));
  }
  try {
    TorchArchive file(path);
    if (!file.has("data.pkl")) throw InputError("is a zip file, but not of torch.save()");
    if (file.has("constants.pkl")) throw InputError("is a TorchScript module: save its state_dict() with torch.save()");
    return unpickle(file.text("data.pkl"), file);
  } catch (const c10::Error& error) {
    if (speaks_of_memory(error.what_without_backtrace())) throw;
    throw InputError(fmt::format("{}: {}", path, damaged_file));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", path, error.what()));
  }
}

void write_torch_file(const std::vector<std::pair<std::string, std::string>>& texts, const std::string& tensors_name,
                      const NamedTensors& tensors, const std::string& path) {
  c10::impl::GenericDict document(c10::StringType::get(), c10::AnyType::get());
  for (const auto& [name, text] : texts) document.insert(c10::IValue(name), c10::IValue(text));
  c10::Dict<std::string, at::Tensor> places;  // sizes and strides, without memory
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor elements = dense(tensor);
    const auto host = at::TensorOptions().dtype(tensor.scalar_type());
    places.insert(name, at::from_blob(nullptr, elements.sizes(), elements.strides(), host));
  }
  if (!tensors_name.empty()) document.insert(c10::IValue(tensors_name), c10::IValue(places));

  std::string pickle;
  // Without type tags, which torch.load() accepts only from torch.jit.
  torch::jit::Pickler pickler([&](const char* part, std::size_t size) { pickle.append(part, size); }, nullptr, nullptr,
                              nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(tensors_name.empty() ? c10::IValue(places) : c10::IValue(document));
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
  for (const auto& [name, tensor] : tensors) {  // one at a time: the host holds one tensor of the device
    const at::Tensor elements = dense(tensor).cpu();
    writer.writeRecord(fmt::format("data/{}", number++), elements.const_data_ptr(), elements.nbytes());
  }
  writer.writeEndOfFile();
  if (refused) std::rethrow_exception(refused);
  out.commit();
}

}  // namespace perfpred
