#include "trainable_network.h"

#include <perfpred/error.h>
#include <perfpred/network.h>
#include <perfpred/torch/network_module.h>

#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

namespace perfpred {
namespace {

at::ScalarType type_of(const Workload& workload) {
  return workload.precision == Precision::fp64 ? at::kDouble : at::kFloat;
}

class ZooNetwork final : public TrainableNetwork {
 public:
  ZooNetwork(const Workload& workload, c10::Device device, std::uint64_t seed)
      : module_(build_network(workload), ModuleOptions{seed, device, type_of(workload), workload.layout}) {}

  at::Tensor forward(const at::Tensor& inputs) override { return module_.forward(inputs); }
  void train(bool on) override { module_.train(on); }
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> parameters() const override {
    return pairs(module_.named_parameters());
  }
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> buffers() const override {
    return pairs(module_.named_buffers());
  }

 private:
  template <class Dict>
  static std::vector<std::pair<std::string, at::Tensor>> pairs(const Dict& dict) {
    std::vector<std::pair<std::string, at::Tensor>> list;
    for (const auto& item : dict) list.emplace_back(item.key(), item.value());
    return list;
  }

  NetworkModule module_;
};

class ScriptNetwork final : public TrainableNetwork {
 public:
  ScriptNetwork(const std::string& path, const Workload& workload, c10::Device device)
      : module_(torch::jit::load(path, device)) {
    module_.to(type_of(workload));
    module_.train();
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    const auto result = module_.forward({inputs});
    if (!result.isTensor()) throw InputError("the TorchScript module does not return one tensor of logits");
    return result.toTensor();
  }
  void train(bool on) override { module_.train(on); }
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> parameters() const override {
    std::vector<std::pair<std::string, at::Tensor>> list;
    for (const auto& item : module_.named_parameters()) list.emplace_back(item.name, item.value);
    return list;
  }
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> buffers() const override {
    std::vector<std::pair<std::string, at::Tensor>> list;
    for (const auto& item : module_.named_buffers()) list.emplace_back(item.name, item.value);
    return list;
  }

 private:
  torch::jit::Module module_;
};

}  // namespace

std::unique_ptr<TrainableNetwork> make_zoo_network(const Workload& workload, c10::Device device, std::uint64_t seed) {
  return std::make_unique<ZooNetwork>(workload, device, seed);
}

std::unique_ptr<TrainableNetwork> load_torchscript(const std::string& path, const Workload& workload,
                                                   c10::Device device) {
  try {
    return std::make_unique<ScriptNetwork>(path, workload, device);
  } catch (const c10::Error&) {
    throw InputError(fmt::format("{}: is no TorchScript module that this LibTorch can read", path));
  }
}

}  // namespace perfpred
