// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/torch/ann.h>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "model/kinds/ann.h"

namespace perfpred {
namespace {

constexpr int max_epochs = 4000;
constexpr int patience = 300;  // epochs without a better validation loss

struct Layers {
  explicit Layers(std::int64_t features) : first(features, AnnNetwork::units) {}

  torch::nn::Linear first;
  torch::nn::Linear second{AnnNetwork::units, AnnNetwork::units};
  torch::nn::Linear last{AnnNetwork::units, 1};

  [[nodiscard]] std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> all;
    for (const auto& layer : {first, second, last}) {
      all.push_back(layer->weight);
      all.push_back(layer->bias);
    }
    return all;
  }
  at::Tensor operator()(const at::Tensor& x) { return last(at::relu(second(at::relu(first(x))))).squeeze(1); }
};

at::Tensor to_tensor(const Eigen::MatrixXd& features, const Standardizer& standardize) {
  at::Tensor tensor = at::empty({features.rows(), features.cols()}, at::kFloat);
  auto access = tensor.accessor<float, 2>();
  for (Eigen::Index i = 0; i < features.rows(); ++i) {
    const Features row = standardize(features.row(i).transpose());
    for (Eigen::Index j = 0; j < features.cols(); ++j) access[i][j] = static_cast<float>(row[j]);
  }
  return tensor;
}

at::Tensor to_tensor(const Eigen::VectorXd& target, double mean, double scale) {
  at::Tensor tensor = at::empty({target.size()}, at::kFloat);
  auto access = tensor.accessor<float, 1>();
  for (Eigen::Index i = 0; i < target.size(); ++i) access[i] = static_cast<float>((target[i] - mean) / scale);
  return tensor;
}

template <typename Matrix>
void copy_matrix(const at::Tensor& from, Matrix& to) {
  const at::Tensor flat = from.reshape({to.rows(), to.cols()}).contiguous();
  const auto access = flat.accessor<float, 2>();
  for (Eigen::Index i = 0; i < to.rows(); ++i) {
    for (Eigen::Index j = 0; j < to.cols(); ++j) to(i, j) = access[i][j];
  }
}

AnnNetwork fit(const FeatureTask& task) {
  // The generator of the process is seeded and the order of its draws matters: one fit at a time.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(task.seed);

  AnnNetwork network;
  network.standardize = Standardizer(task.features);
  network.target_mean = task.log_times.mean();
  const double spread = std::sqrt((task.log_times.array() - network.target_mean).square().mean());
  network.target_scale = spread > 0 ? spread : 1;
  const at::Tensor x = to_tensor(task.features, network.standardize);
  const at::Tensor y = to_tensor(task.log_times, network.target_mean, network.target_scale);
  const at::Tensor x_val = to_tensor(task.val_features, network.standardize);
  const at::Tensor y_val = to_tensor(task.val_log_times, network.target_mean, network.target_scale);

  Layers layers(task.features.cols());
  torch::optim::Adam adam(layers.parameters(), torch::optim::AdamOptions(3e-3));
  double best = std::numeric_limits<double>::infinity();
  int best_epoch = 0;
  std::vector<at::Tensor> kept;
  for (int epoch = 0; epoch < max_epochs && epoch - best_epoch <= patience; ++epoch) {
    task.control.check();
    task.control.report(static_cast<double>(epoch) / max_epochs);
    adam.zero_grad();
    at::mse_loss(layers(x), y).backward();
    adam.step();
    const torch::NoGradGuard no_gradient;
    const double loss = at::mse_loss(layers(x_val), y_val).item<double>();
    if (!std::isfinite(loss)) throw Error("the fit of kind ann diverged");
    if (loss < best) {
      best = loss;
      best_epoch = epoch;
      kept.clear();
      for (const at::Tensor& parameter : layers.parameters()) kept.push_back(parameter.detach().clone());
    }
  }
  network.input_weights.resize(AnnNetwork::units, task.features.cols());
  copy_matrix(kept[0], network.input_weights);
  copy_matrix(kept[1], network.input_bias);
  copy_matrix(kept[2], network.hidden_weights);
  copy_matrix(kept[3], network.hidden_bias);
  copy_matrix(kept[4].t(), network.output_weights);
  network.output_bias = kept[5].item<float>();
  return network;
}

}  // namespace

void enable_ann() { set_ann_fitter(&fit); }

}  // namespace perfpred
