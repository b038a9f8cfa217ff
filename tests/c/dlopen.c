/* SPDX-License-Identifier: Apache-2.0 */
/* dlopen LIBRARY: uses the library as a program does that looks for it while it runs. */
#include <perfpred/c_api.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void* library;

/* C99 has no conversion of an object pointer to a function; POSIX promises that the bytes are the same. */
static void find(const char* name, void* function, size_t size) {
  void* symbol = dlsym(library, name);
  if (symbol == NULL) fprintf(stderr, "%s is missing\n", name);
  memcpy(function, &symbol, size);
}

int main(int argc, char** argv) {
  const char* (*version)(void);
  const char* (*last_error)(void);
  int (*load)(const char*, const perfpred_catalogue*, perfpred_model**);
  int (*forecast)(const perfpred_model*, const char*, char*, size_t, size_t*);
  void (*free_model)(perfpred_model*);
  perfpred_model* model = NULL;
  char answer[8];
  size_t needed = 0;
  if (argc != 2) return 2;
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  find("perfpred_version", &version, sizeof version);
  find("perfpred_last_error", &last_error, sizeof last_error);
  find("perfpred_model_load", &load, sizeof load);
  find("perfpred_forecast", &forecast, sizeof forecast);
  find("perfpred_model_free", &free_model, sizeof free_model);
  if (strlen(version()) == 0 || strlen(last_error()) != 0) return 1;
  if (load(NULL, NULL, &model) != PERFPRED_OK) return 1;
  if (forecast(model, "{\"network\": \"resnet18\", \"batch_size\": 8, \"device\": \"T4\"}", answer, sizeof answer,
               &needed) != PERFPRED_OK ||
      needed < 100 || answer[0] != '{') {
    fprintf(stderr, "%s\n", last_error());
    return 1;
  }
  free_model(model);
  if (forecast(model, "{}", answer, sizeof answer, &needed) != PERFPRED_WRONG_INPUT) return 1;
  if (strstr(last_error(), "not open") == NULL) return 1;
  return 0;
}
