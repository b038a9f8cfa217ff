#pragma once
#include <perfpred/workload.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/modules/container/functional.h>

namespace perfpred {

/// The CIFAR-10 CNN family.
class CnnModule : public torch::nn::Module {
 public:
  explicit CnnModule(const Workload& w) {
    std::int64_t in = w.input[0], h = w.input[1], width = w.input[2];
    for (int b = 0; b < *w.depth; ++b) {
      const std::int64_t out = static_cast<std::int64_t>(*w.base_filters) << b;
      layers_->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1)));
      layers_->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(true)));
      layers_->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(out, out, 3).padding(1)));
      layers_->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(true)));
      layers_->push_back(torch::nn::MaxPool2d(2));
      in = out;
      h /= 2;
      width /= 2;
    }
    layers_->push_back(torch::nn::Functional([](const torch::Tensor& x) { return x.flatten(1); }));
    layers_->push_back(torch::nn::Linear(in * h * width, 128));
    layers_->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(true)));
    layers_->push_back(torch::nn::Linear(128, w.classes));
    register_module("layers", layers_);
  }
  torch::Tensor forward(const torch::Tensor& x) { return layers_->forward(x); }

 private:
  torch::nn::Sequential layers_;
};

}  // namespace perfpred
