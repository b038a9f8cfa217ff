// SPDX-License-Identifier: Apache-2.0
#include "torch/network/trainable_network.h"

#include <perfpred/torch/network_module.h>

#include "torch/device/scalar_types.h"

namespace perfpred {
namespace {

class ZooNetwork final : public TrainableNetwork {
 public:
  ZooNetwork(const Workload& workload, c10::Device device, std::uint64_t seed, bool drawn_on_device)
      : module_(workload,
                ModuleOptions{seed, device, storage_type(workload.precision), workload.layout, drawn_on_device}) {}

  at::Tensor forward(const at::Tensor& inputs) override { return module_.forward(inputs); }
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

}  // namespace

std::unique_ptr<TrainableNetwork> make_zoo_network(const Workload& workload, c10::Device device, std::uint64_t seed,
                                                   bool drawn_on_device) {
  return std::make_unique<ZooNetwork>(workload, device, seed, drawn_on_device);
}

}  // namespace perfpred
