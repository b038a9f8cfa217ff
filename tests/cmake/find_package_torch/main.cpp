#include <ATen/ATen.h>
#include <perfpred/workload.h>
namespace perfpred { int zz(); }
int main() { return perfpred::zz() + (at::ones({2}).sum().item<float>() == 2.0F ? 0 : 1); }
