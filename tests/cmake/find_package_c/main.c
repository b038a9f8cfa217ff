/* SPDX-License-Identifier: Apache-2.0 */
#include <perfpred/c_api.h>
#include <stdio.h>

int main(void) {
  perfpred_model* model;
  perfpred_workload* job;
  double seconds[3];
  if (perfpred_model_load(NULL, NULL, &model) != PERFPRED_OK ||
      perfpred_workload_create(model, "{\"network\": \"resnet18\", \"batch_size\": 32, \"device\": \"T4\"}", &job) !=
          PERFPRED_OK ||
      perfpred_predict(model, job, seconds, NULL) != PERFPRED_OK) {
    fprintf(stderr, "%s\n", perfpred_last_error());
    return 1;
  }
  printf("perfpred %s: %.4g s\n", perfpred_version(), seconds[1]);
  perfpred_workload_free(job);
  perfpred_model_free(model);
  return seconds[0] < seconds[1] && seconds[1] < seconds[2] ? 0 : 1;
}
