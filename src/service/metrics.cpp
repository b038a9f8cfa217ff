// SPDX-License-Identifier: Apache-2.0
#include "service/metrics.h"

#include <fmt/format.h>
#include <perfpred/version.h>

namespace perfpred {
namespace {

/// The lines in front of a metric's values.
std::string head(std::string_view name, std::string_view type, std::string_view help) {
  return fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

/// A text between the quotes of a label.
std::string label(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

void Metrics::answered(std::string_view route, int status, double sec) {
  const std::lock_guard lock(mutex_);
  ++requests_[{std::string(route), status}];
  Seconds& seconds = seconds_[std::string(route)];
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (sec <= bounds[i]) ++seconds.buckets[i];
  }
  ++seconds.count;
  seconds.sum += sec;
}

void Metrics::observed(const std::string& model, bool outside) {
  const std::lock_guard lock(mutex_);
  Runs& runs = runs_[model];
  ++runs.observed;
  if (outside) ++runs.outside;
}

void Metrics::reloaded(const std::string& model, bool good) {
  const std::lock_guard lock(mutex_);
  Reloads& reloads = reloads_[model];
  ++(good ? reloads.good : reloads.failed);
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string text = head("perfpred_build_info", "gauge", "Version of perfpred") +
                     fmt::format("perfpred_build_info{{version=\"{}\"}} 1\n", PERFPRED_VERSION);
  text += head("perfpred_requests_total", "counter", "Requests that were answered");
  for (const auto& [of, count] : requests_) {
    text += fmt::format("perfpred_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", of.first, of.second, count);
  }
  text += head("perfpred_request_seconds", "histogram", "From the whole request to its answer");
  for (const auto& [route, seconds] : seconds_) {
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      text += fmt::format("perfpred_request_seconds_bucket{{route=\"{}\",le=\"{}\"}} {}\n", route, bounds[i],
                          seconds.buckets[i]);
    }
    text += fmt::format("perfpred_request_seconds_bucket{{route=\"{0}\",le=\"+Inf\"}} {1}\n", route, seconds.count);
    text += fmt::format("perfpred_request_seconds_sum{{route=\"{}\"}} {}\n", route, seconds.sum);
    text += fmt::format("perfpred_request_seconds_count{{route=\"{}\"}} {}\n", route, seconds.count);
  }
  text += head("perfpred_connections", "gauge", "Open connections") +
          fmt::format("perfpred_connections {}\n", connections.load());
  text += head("perfpred_refused_connections_total", "counter", "Connections beyond the limit") +
          fmt::format("perfpred_refused_connections_total {}\n", refused_connections.load());
  text += head("perfpred_observed_runs_total", "counter", "Finished runs that the model could have predicted");
  for (const auto& [model, runs] : runs_)
    text += fmt::format("perfpred_observed_runs_total{{model=\"{}\"}} {}\n", label(model), runs.observed);
  text += head("perfpred_observed_runs_outside_interval_total", "counter",
               "Of these, runs whose time was outside the 90 % interval that the model gave before it saw them");
  for (const auto& [model, runs] : runs_) {
    text +=
        fmt::format("perfpred_observed_runs_outside_interval_total{{model=\"{}\"}} {}\n", label(model), runs.outside);
  }
  text += head("perfpred_observed_outside_interval_ratio", "gauge", "Their share; 0.1 is what the interval promises");
  for (const auto& [model, runs] : runs_) {
    text += fmt::format("perfpred_observed_outside_interval_ratio{{model=\"{}\"}} {}\n", label(model),
                        static_cast<double>(runs.outside) / static_cast<double>(runs.observed));
  }
  text += head("perfpred_model_reloads_total", "counter", "Times that a model's file was replaced");
  for (const auto& [model, reloads] : reloads_) {
    text += fmt::format("perfpred_model_reloads_total{{model=\"{}\",result=\"ok\"}} {}\n", label(model), reloads.good);
    text += fmt::format("perfpred_model_reloads_total{{model=\"{}\",result=\"failed\"}} {}\n", label(model),
                        reloads.failed);
  }
  return text;
}

}  // namespace perfpred
