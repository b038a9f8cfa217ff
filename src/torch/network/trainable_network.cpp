// SPDX-License-Identifier: Apache-2.0
#include "torch/network/trainable_network.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <perfpred/error.h>
#include <perfpred/torch/network_module.h>

#include <fmt/format.h>

#include <vector>

#include "torch/device/scalar_types.h"
#include "torch/device/torch_errors.h"
#include "torch/exported/exported_module.h"

namespace perfpred {
namespace {

class ZooNetwork final : public TrainableNetwork {
 public:
  ZooNetwork(const Workload& workload, c10::Device device, std::uint64_t seed, bool drawn_on_device)
      : module_(workload,
                ModuleOptions{seed, device, storage_type(workload.precision), workload.layout, drawn_on_device}) {}

  at::Tensor forward(const at::Tensor& inputs, const at::Tensor&) override { return module_.forward(inputs); }
  at::Tensor loss(const at::Tensor& logits, const std::function<at::Tensor(const at::Tensor&)>& of) override {
    return module_.loss(logits, of);
  }
  void train(bool on) override { module_.train(on); }
  [[nodiscard]] NamedTensors parameters() const override { return pairs(module_.named_parameters()); }
  [[nodiscard]] NamedTensors buffers() const override { return pairs(module_.named_buffers()); }

 private:
  template <class Dict>
  static NamedTensors pairs(const Dict& dict) {
    NamedTensors list;
    for (const auto& item : dict) list.emplace_back(item.key(), item.value());
    return list;
  }

  NetworkModule module_;
};

/// @throws InputError if the output of the file's network cannot be trained on so many classes
at::Tensor checked_output(const std::string& path, at::Tensor logits, std::int64_t classes, bool is_loss) {
  if (is_loss && (!logits.defined() || logits.dim() != 0 || !logits.is_floating_point())) {
    throw InputError(fmt::format("{}: takes targets and does not return a loss, one number", path));
  }
  if (!is_loss && (!logits.defined() || logits.dim() < 2)) {
    throw InputError(fmt::format("{}: does not return one tensor of logits", path));
  }
  if (!is_loss && logits.size(-1) < classes) {
    throw InputError(fmt::format("{}: has {} outputs for {} classes", path, logits.size(-1), classes));
  }
  if (at::GradMode::is_enabled() && !logits.requires_grad()) {
    throw InputError(fmt::format("{}: has no parameter that can be trained (is it frozen?)", path));
  }
  return logits;
}

class ExportedNetwork final : public TrainableNetwork {
 public:
  ExportedNetwork(const std::string& path, const Workload& workload, c10::Device device)
      : path_(path),
        classes_(workload.classes),
        module_(path, {device, workload.precision == Precision::fp64, workload.layout}) {}

  at::Tensor forward(const at::Tensor& inputs, const at::Tensor& targets) override {
    const auto taken = module_.inputs();
    const bool half = !taken.empty() && c10::isReducedFloatingType(taken[0].type);
    std::vector<at::Tensor> arguments = {half ? inputs.to(taken[0].type) : inputs};
    if (gives_loss()) arguments.push_back(targets.to(taken[1].type));
    std::vector<at::Tensor> outputs;
    try {
      outputs = module_.forward(arguments);
    } catch (const c10::Error& error) {
      const std::string reason = error.what_without_backtrace();
      if (speaks_of_memory(reason) || dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr) throw;
      throw InputError(fmt::format("{}: {}", path_, first_line_of(reason)));
    }
    return checked_output(path_, outputs.empty() ? at::Tensor() : outputs.front(), classes_, gives_loss());
  }
  [[nodiscard]] bool gives_loss() const override { return module_.inputs().size() == 2; }
  void train(bool on) override { module_.train(on); }
  [[nodiscard]] NamedTensors parameters() const override { return module_.parameters(); }
  [[nodiscard]] NamedTensors buffers() const override { return module_.buffers(); }
  [[nodiscard]] std::string note() const override { return module_.note(); }

 private:
  std::string path_;
  std::int64_t classes_;
  ExportedModule module_;
};

}  // namespace

std::unique_ptr<TrainableNetwork> make_zoo_network(const Workload& workload, c10::Device device, std::uint64_t seed,
                                                   bool drawn_on_device) {
  return std::make_unique<ZooNetwork>(workload, device, seed, drawn_on_device);
}

std::unique_ptr<TrainableNetwork> load_exported(const std::string& path, const Workload& workload, c10::Device device) {
  return std::make_unique<ExportedNetwork>(path, workload, device);
}

}  // namespace perfpred
