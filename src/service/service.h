// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service/http.h"
#include "service/metrics.h"
#include "service/served_models.h"

namespace perfpred {

struct ServiceLimits {
  std::size_t requests = 1000;  ///< in one list
  double answer_sec = 30;       ///< for a list, a plan or layouts; what is not answered then is refused
};

/// What a service answers: a request gives a response, and no connection is needed for it. Any thread may ask.
///
/// A request opens no file and has no device measured: files come as their texts, or as names of networks whose files
/// the service was started with.
class Service {
 public:
  /// @param models   outlive the service
  /// @param metrics  outlive it, too
  Service(ServedModels& models, Metrics& metrics, const ServiceLimits& limits);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Throws nothing: what went wrong is a response with a status and `{"error": ...}`.
  [[nodiscard]] HttpResponse answer(const HttpRequest& request) const;

  /// Teaches a model finished runs, as POST /v1/observe does, and counts those that it had predicted wrongly.
  /// @param model  of models.all(), with a file. @returns those that it set aside. @throws as ServedModels::observe()
  std::vector<RejectedRun> learn(const ServedModel& model, std::span<const Run> runs) const;

  struct Route {
    std::string_view method, path;
    bool is_slow;  ///< may take seconds: such requests must not keep others waiting
    HttpResponse (Service::*answer)(const HttpRequest&) const;
  };
  [[nodiscard]] static std::span<const Route> routes();

  /// Whether answering may take seconds: a slow route, or a long list.
  [[nodiscard]] static bool is_slow(const HttpRequest& request);

 private:
  [[nodiscard]] HttpResponse routed(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse predict(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse trace(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse layouts(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse plan(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse observe(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse roll_back(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse list_models(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse list_devices(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse list_networks(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse list_fields(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse openapi(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse health(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse metrics(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse page(const HttpRequest& request) const;

  [[nodiscard]] std::shared_ptr<const ServedModel> model_of(const HttpRequest& request) const;
  [[nodiscard]] std::shared_ptr<const ServedModel> model_with_file(const HttpRequest& request) const;
  void count_outside(const ServedModel& before, std::span<const Run> runs,
                     const std::vector<RejectedRun>& set_aside) const;

  ServedModels& models_;
  Metrics& metrics_;
  ServiceLimits limits_;
};

}  // namespace perfpred
