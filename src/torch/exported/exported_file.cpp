// SPDX-License-Identifier: Apache-2.0
#include "torch/exported/exported_file.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>
#include <perfpred/error.h>

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "torch/device/torch_errors.h"
#include "torch/files/torch_archive.h"

namespace perfpred {
namespace {

constexpr const char* damaged = "is not a whole file of torch.export.save(): it is cut off or damaged";
constexpr const char* save_again = "save it with torch.export.save() of PyTorch 2.11";

/// @throws InputError if torch.export.save() did not write this zip file, or an older version did
void check_kind(TorchArchive& archive) {
  if (!archive.has("archive_format")) {
    if (archive.has("serialized_exported_program.json")) {
      throw InputError(std::string("is of an older PyTorch; ") + save_again);
    }
    throw InputError(archive.has("constants.pkl") ? "is a TorchScript file, which is not read: save the network with "
                                                    "torch.export.save(), or record a step of it with perfpred.capture"
                                                  : std::string("is not a file of torch.export.save(); ") + save_again);
  }
  if (archive.text("archive_format") != "pt2") throw InputError("is an archive of another format than pt2");
  if (!archive.has("models/model.json")) {
    throw InputError(std::string("has no exported program (a compiled package of AOTInductor?); ") + save_again);
  }
  if (archive.has("byteorder") && archive.text("byteorder") != "little") {
    throw InputError("was written on a machine of the other byte order");
  }
}

/// Reads the tensors of one kind.
class TensorReader {
 public:
  /// @param folder  "data/weights/"
  TensorReader(TorchArchive& archive, std::string folder) : archive_(archive), folder_(std::move(folder)) {}

  at::Tensor read(const ExportedPayload& payload, bool with_memory) {
    if (payload.on_meta && !with_memory) return without_memory(payload);  // the record is not its own
    auto [found, is_new] =
        made_.try_emplace(std::tuple(payload.record, payload.sizes, payload.strides, payload.offset));
    if (is_new) found->second = with_memory ? of_bytes(payload) : without_memory(payload);
    return found->second;
  }

 private:
  static at::Tensor without_memory(const ExportedPayload& payload) {
    static_cast<void>(extent(payload));
    at::Tensor made = at::empty_strided(payload.sizes, payload.strides, at::device(at::kMeta).dtype(payload.type));
    made.set_requires_grad(payload.requires_grad && made.is_floating_point());
    return made;
  }

  /// Bytes of memory from the beginning of the storage to the tensor's end. @throws InputError if that is too large
  static std::uint64_t extent(const ExportedPayload& payload) {
    constexpr std::uint64_t most = std::uint64_t{1} << 48U;
    std::uint64_t elements = static_cast<std::uint64_t>(payload.offset) + 1;
    std::uint64_t number = 1;
    for (std::size_t i = 0; i < payload.sizes.size(); ++i) {
      const auto size = static_cast<std::uint64_t>(payload.sizes[i]);
      std::uint64_t step = 0;
      if (__builtin_mul_overflow(number, size, &number) || number > most) throw InputError(damaged);
      if (size == 0) continue;
      if (__builtin_mul_overflow(size - 1, static_cast<std::uint64_t>(payload.strides[i]), &step) || step > most ||
          (elements += step) > most) {
        throw InputError(damaged);
      }
    }
    return number == 0 ? 0 : elements * c10::elementSize(payload.type);
  }

  at::Tensor of_bytes(const ExportedPayload& payload) {
    if (payload.on_meta) throw InputError("was exported on the meta device, without values: it can be traced only");
    const std::uint64_t needed = extent(payload);
    at::Tensor made = at::empty({0}, at::TensorOptions().dtype(payload.type));
    made.set_(storage(payload.record, needed), payload.offset, payload.sizes, payload.strides);
    made.set_requires_grad(payload.requires_grad && made.is_floating_point());
    return made;
  }

  c10::Storage storage(const std::string& record, std::uint64_t needed) {
    auto found = storages_.find(record);
    if (found == storages_.end()) {
      const std::string path = folder_ + record;
      if (!archive_.has(path)) throw InputError(damaged);
      const std::size_t size = archive_.size(path);
      c10::Storage made(c10::Storage::use_byte_size_t(), size, archive_.read(path), nullptr, /*resizable=*/false);
      found = storages_.emplace(record, std::move(made)).first;
    }
    if (needed > found->second.nbytes()) throw InputError(damaged);
    return found->second;
  }

  using Place = std::tuple<std::string, std::vector<std::int64_t>, std::vector<std::int64_t>, std::int64_t>;

  TorchArchive& archive_;
  std::string folder_;
  std::map<std::string, c10::Storage> storages_;
  std::map<Place, at::Tensor> made_;
};

/// @param without_memory  names of tensors that are not read
/// @param has_values      becomes false if one was exported without values
std::unordered_map<std::string, at::Tensor> read_tensors(TorchArchive& archive, const std::string& kind,
                                                         const std::set<std::string>* without_memory,
                                                         bool& has_values) {
  const std::string folder = fmt::format("data/{}/", kind);
  const std::string config = fmt::format("{}model_{}_config.json", folder, kind);
  if (!archive.has(config))
    throw InputError(fmt::format("is of an older PyTorch ({} is missing); {}", config, save_again));
  std::unordered_map<std::string, at::Tensor> tensors;
  TensorReader reader(archive, folder);
  std::map<std::string, ExportedPayload> payloads;
  try {
    payloads = parse_exported_payloads(archive.text(config));
  } catch (const InputError& error) {
    throw InputError(error.what() == std::string_view(damaged) ? damaged : fmt::format("{}: {}", config, error.what()));
  }
  for (const auto& [name, payload] : payloads) {
    if (!payload.has_tensor) continue;  // who reads it is told that it is missing
    if (payload.pickled) throw InputError(fmt::format("{} is not a plain tensor", name));
    has_values = has_values && !payload.on_meta;
    const bool bare = without_memory != nullptr && (payload.on_meta || without_memory->contains(name));
    tensors.emplace(name, reader.read(payload, !bare));
  }
  return tensors;
}

}  // namespace

ExportedFile read_exported_file(const std::string& path, ExportedWeights weights) {
  std::ifstream begin(path, std::ios::binary);
  if (!begin) throw InputError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  std::array<char, 2> magic{};
  begin.read(magic.data(), magic.size());
  if (std::string_view(magic.data(), magic.size()) != "PK") {
    throw InputError(fmt::format("{}: is not a file of torch.export.save()", path));
  }
  try {
    TorchArchive archive(path);
    check_kind(archive);
    ExportedFile file;
    try {
      file.program = parse_exported_program(archive.text("models/model.json"));
    } catch (const InputError& error) {
      throw InputError(std::string_view(error.what()) == damaged_file
                           ? damaged
                           : fmt::format("models/model.json: {}", error.what()));
    }
    std::set<std::string> learned;
    for (const ExportedBinding& input : file.program.inputs) {
      if (input.role == ExportedRole::parameter || input.role == ExportedRole::buffer) learned.insert(input.target);
    }
    const std::set<std::string>* bare = weights == ExportedWeights::without_memory ? &learned : nullptr;
    file.weights = read_tensors(archive, "weights", bare, file.has_values);
    file.constants = read_tensors(archive, "constants", bare, file.has_values);
    return file;
  } catch (const c10::Error& error) {
    if (speaks_of_memory(error.what_without_backtrace())) throw;
    throw InputError(fmt::format("{}: {}", path, damaged));
  } catch (const InputError& error) {
    const bool torn = std::string_view(error.what()) == damaged_file;
    throw InputError(fmt::format("{}: {}", path, torn ? damaged : error.what()));
  }
}

}  // namespace perfpred
