// SPDX-License-Identifier: Apache-2.0
// Stands in for NVIDIA's management library, on a machine with two RTX 4090: programs hold 3 GB of each.
#include <cstring>

extern "C" {

struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static int gpus[2];
  if (index >= 2) return 2;  // NVML_ERROR_INVALID_ARGUMENT
  *device = &gpus[index];
  return 0;
}

int nvmlDeviceGetName(void*, char* name, unsigned length) {
  strncpy(name, "NVIDIA GeForce RTX 4090", length);
  return 0;
}

int nvmlDeviceGetMemoryInfo_v2(void*, MemoryV2* memory) {
  if (memory->version != (sizeof(MemoryV2) | (2U << 24))) return 25;  // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
  memory->total = 25757220864ULL;
  memory->reserved = 373000000ULL;
  memory->used = 3000000000ULL;
  memory->free = memory->total - memory->reserved - memory->used;
  return 0;
}

}  // extern "C"
