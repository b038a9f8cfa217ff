// SPDX-License-Identifier: Apache-2.0
// What a scheduler would write: asks for the size of a job through the installed headers,
// which need nothing but the standard library.
#include <perfpred/perfpred.h>
#include <perfpred/version.h>
#include <perfpred/workload.h>

#include <cstdio>

int main() {
  const auto workload = perfpred::Workload::cifar_cnn(3, 32, 128);
  std::printf("perfpred %s: %s has %lld parameters\n", PERFPRED_VERSION, workload.key().c_str(),
              static_cast<long long>(workload.params()));
  return workload.params() == 550'570 ? 0 : 1;
}
