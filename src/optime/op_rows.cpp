// SPDX-License-Identifier: Apache-2.0
#include "optime/op_rows.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <tuple>

#include "text/csv.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;

/// A number that a data sheet may lack.
std::optional<double> known(const CsvReader& csv, const CsvColumn& column) {
  if (csv.text(column).empty()) return std::nullopt;
  const double value = csv.finite(column);
  return value > 0 ? std::optional(value) : std::nullopt;
}

/// @returns the value, which a real GPU can have; else somebody took another unit
double plausible(const CsvReader& csv, const CsvColumn& column, double value, double low, double high) {
  if (value >= low && value <= high) return value;
  throw_bad_value(csv.place(column.name), csv.text(column),
                  fmt::format("between {} and {}; is the unit right?", low, high));
}

void read_gpus(const std::string& path, OpFolder& folder) {
  CsvReader csv(path);
  const CsvColumn name = csv.required("gpu"), bandwidth = csv.required("mem_bw_gbs"), sms = csv.required("num_sm"),
                  l2 = csv.required("l2_mb"), matrix = csv.optional("fp32_matrix_gflops"),
                  vector = csv.optional("fp32_gflops"), half = csv.optional("bf16_gflops"),
                  chip_sms = csv.optional("x_num_sm_datasheet"), mhz = csv.optional("freq_mhz"),
                  arch = csv.optional("x_arch"), watts = csv.optional("x_tdp_w");
  while (csv.next()) {
    Hardware gpu;
    gpu.name = csv.text(name);
    gpu.family = kernel_family(csv.text(arch));
    gpu.bandwidth = plausible(csv, bandwidth, csv.positive(bandwidth), 1, 1e5) * 1e9;
    gpu.sms = csv.positive(sms);
    gpu.threads = threads_per_sm * known(csv, chip_sms).value_or(gpu.sms);
    gpu.l2 = csv.positive(l2) * 1e6;
    gpu.l2_partitions = l2_partitions(csv.text(arch), gpu.l2);
    const auto peak = [&](const CsvColumn& column) {
      const auto gflops = known(csv, column);
      return gflops ? std::optional(plausible(csv, column, *gflops, 100, 1e8) * 1e9) : std::nullopt;
    };
    const auto single = peak(matrix), reduced = peak(half);
    if (single.has_value() == reduced.has_value()) {
      throw InputError(fmt::format(
          "{}{} given; products of a GPU are in one of both", csv.place("").prefix(),
          single ? "fp32_matrix_gflops and bf16_gflops are both" : "neither fp32_matrix_gflops nor bf16_gflops is"));
    }
    gpu.flops = single ? *single : *reduced;
    gpu.vector_flops = peak(vector).value_or(gpu.flops);
    const auto clock = known(csv, mhz), power = known(csv, watts);
    if (single && clock && power) gpu.power_share = power_share(csv.text(arch), *clock / 1e3, *single / 1e12, *power);
    if (reduced && clock && power) gpu.set_matrix_units(csv.text(arch), *clock / 1e3, *power);
    if (!folder.gpus.emplace(gpu.name, gpu).second) {
      throw InputError(fmt::format("{}gpu \"{}\" appears twice", csv.place("").prefix(), gpu.name));
    }
    if (reduced) folder.half.insert(gpu.name);
  }
}

int variant_of(std::string_view op) {
  const auto* found = std::find(elementwise_ops.begin(), elementwise_ops.end(), op);
  return found == elementwise_ops.end() ? -1 : static_cast<int>(found - elementwise_ops.begin());
}

bool has_two_inputs(std::string_view op) { return op == "add" || op == "div" || op == "mul" || op == "pow"; }

bool is_product(KernelClass kind) {
  return kind == KernelClass::linear || kind == KernelClass::bmm || kind == KernelClass::gemm_bf16;
}

/// The GPU of a row. @throws InputError if gpus.csv lacks it
std::string known_gpu(const OpFolder& folder, const CsvReader& csv, const CsvColumn& column) {
  std::string gpu(csv.text(column));
  if (folder.gpus.contains(gpu)) return gpu;
  throw InputError(fmt::format("{}gpu \"{}\" is not in gpus.csv", csv.place("").prefix(), gpu));
}

/// `B`, `M`, `N`, `K`, `H` as the folder uses them: products are [B, M, N] x [B, N, K]; vectors are B rows of H.
struct ShapeColumns {
  CsvColumn b, m, n, k, h;
  ShapeColumns(const CsvReader& csv, bool product)
      : b(product ? csv.optional("B") : csv.required("B")),
        m(product ? csv.required("M") : csv.optional("M")),
        n(product ? csv.required("N") : csv.optional("N")),
        k(product ? csv.required("K") : csv.optional("K")),
        h(product ? csv.optional("H") : csv.required("H")) {}

  /// @returns nothing for an elementwise operator that is not known
  [[nodiscard]] std::optional<Kernel> kernel(const CsvReader& csv, KernelClass kind, std::string_view op) const {
    Kernel kernel;
    kernel.kind = kind;
    if (is_product(kind)) {
      kernel.batch = csv.text(b).empty() ? 1 : csv.positive(b);
      kernel.m = csv.positive(m);
      kernel.k = csv.positive(n);
      kernel.n = csv.positive(k);
      kernel.element_bytes = kind == KernelClass::gemm_bf16 ? 2 : 4;
      return kernel;
    }
    kernel.m = csv.positive(b);
    kernel.n = csv.positive(h);
    if (kind == KernelClass::elementwise) {
      kernel.variant = variant_of(op);
      if (kernel.variant < 0) return std::nullopt;
      if (has_two_inputs(op)) kernel.tensors = 3;
    }
    return kernel;
  }
};

/// Columns of the shapes of convolutions.
struct ConvShapes {
  CsvColumn batch, in, out, size, pixels, stride, pad;
  explicit ConvShapes(const CsvReader& csv)
      : batch(csv.required("B")),
        in(csv.required("Cin")),
        out(csv.required("Cout")),
        size(csv.required("ksize")),
        pixels(csv.required("HW")),
        stride(csv.required("stride")),
        pad(csv.required("pad")) {}

  /// @returns nothing for another than 3x3 with stride 1 and padding 1
  [[nodiscard]] std::optional<Kernel> kernel(const CsvReader& csv) const {
    if (csv.positive_integer(size) != 3 || csv.positive_integer(stride) != 1 || csv.integer(pad) != 1)
      return std::nullopt;
    return Kernel{
        KernelClass::conv, 0, csv.positive(batch), csv.positive(pixels), csv.positive(out), csv.positive(in), 2, 4};
  }
};

bool is_test(const CsvReader& csv, const CsvColumn& split) {
  const std::string_view part = csv.text(split);
  if (!part.empty() && part != "test" && part != "train") throw_bad_value(csv.place("split"), part, "train or test");
  return part == "test";
}

/// @throws InputError if gpus.csv has no peak for products of the class
void check_peak(const OpFolder& folder, const CsvReader& csv, KernelClass kind, const std::string& gpu) {
  const bool half = kind == KernelClass::gemm_bf16;
  if ((kind != KernelClass::conv && !is_product(kind)) || folder.half.contains(gpu) == half) return;
  throw InputError(fmt::format("{}gpu \"{}\" has no {} in gpus.csv", csv.place("").prefix(), gpu,
                               half ? "bf16_gflops" : "fp32_matrix_gflops"));
}

void read_ops(const std::string& path, KernelClass kind, OpFolder& folder) {
  CsvReader csv(path);
  const CsvColumn gpu = csv.required("gpu"), split = csv.optional("split"), op = csv.optional("op"),
                  time = csv.required("fwd_ms");
  std::optional<ConvShapes> convolutions;
  std::optional<ShapeColumns> shapes;
  if (kind == KernelClass::conv) {
    convolutions.emplace(csv);
  } else {
    shapes.emplace(csv, is_product(kind));
  }
  std::size_t unknown = 0, untimed = 0;
  while (csv.next()) {
    OpRow row;
    row.gpu = known_gpu(folder, csv, gpu);
    row.op = csv.text(op).empty() ? formula(kind).name : csv.text(op);
    row.test = is_test(csv, split);
    check_peak(folder, csv, kind, row.gpu);
    if (csv.text(time).empty()) {
      ++untimed;
      continue;
    }
    row.sec = csv.positive(time) / 1e3;
    const auto kernel = convolutions ? convolutions->kernel(csv) : shapes->kernel(csv, kind, row.op);
    if (!kernel) {
      ++unknown;
      continue;
    }
    row.kernel = *kernel;
    folder.rows.push_back(std::move(row));
  }
  if (unknown != 0) folder.skipped.push_back(fmt::format("{}: {} rows of unknown operators", path, unknown));
  if (untimed != 0) folder.skipped.push_back(fmt::format("{}: {} rows without a time", path, untimed));
}

/// A call that reads and writes so many elements in all, as fast as one that adds a number to each.
Kernel move_of(double elements) {
  Kernel move;
  move.n = 1024;
  move.m = elements / 2 / move.n;
  return move;
}

/// What a graph's row says beside the shape of its call. NeuSight's graphs have these columns.
struct Node {
  CsvColumn name, type, phase, read;
  explicit Node(const CsvReader& csv)
      : name(csv.optional("node")),
        type(csv.optional("node_op")),
        phase(csv.optional("phase")),
        read(csv.optional("in_elems")) {}

  [[nodiscard]] bool is_view(const CsvReader& csv) const { return csv.text(type) == "getitem"; }

  /// Elements that the forward call reads, where the row says so. Rows of backward calls repeat the forward's.
  [[nodiscard]] std::optional<double> forward_reads(const CsvReader& csv) const {
    return csv.text(phase) == "fwd" ? known(csv, read) : std::nullopt;
  }

  /// PyTorch's matmul copies operands that are permuted: queries and keys, whose heads lie apart, or values. Its other
  /// operand, softmax's result, is larger and not permuted.
  [[nodiscard]] std::optional<StepPart> copies(const CsvReader& csv, const StepPart& product) const {
    const Kernel& k = product.kernel;
    if (csv.text(phase) != "fwd" || !csv.text(name).starts_with("matmul") || k.batch == 1) return std::nullopt;
    const double left = k.m * k.k, right = k.k * k.n, copied = left == right ? 2 * left : std::min(left, right);
    return StepPart{move_of(2 * k.batch * copied), product.count};
  }
};

using GraphKey = std::tuple<std::string, std::string, std::string, std::string, std::string>;

std::map<GraphKey, std::vector<StepPart>> read_graphs(const std::string& path) {
  CsvReader csv(path);
  const CsvColumn model = csv.required("model"), mode = csv.required("mode"), option = csv.required("option"),
                  seq = csv.required("seq"), batch = csv.required("batch"), count = csv.required("count"),
                  op = csv.required("op"), moved = csv.required("mem_elems");
  const ShapeColumns products(csv, true), vectors(csv, false);
  const Node node(csv);
  std::map<GraphKey, std::vector<StepPart>> graphs;
  while (csv.next()) {
    if (node.is_view(csv)) continue;
    std::vector<StepPart>& parts =
        graphs[{std::string(csv.text(model)), std::string(csv.text(mode)), std::string(csv.text(option)),
                std::string(csv.text(seq)), std::string(csv.text(batch))}];
    StepPart part;
    part.count = csv.positive(count);
    const std::string_view name = csv.text(op);
    if (name == "mem") {
      part.kernel = move_of(csv.positive(moved));
      parts.push_back(part);
      continue;
    }
    const KernelClass kind = name == "linear"    ? KernelClass::linear
                             : name == "bmm"     ? KernelClass::bmm
                             : name == "ln"      ? KernelClass::layernorm
                             : name == "softmax" ? KernelClass::softmax
                                                 : KernelClass::elementwise;
    const auto kernel = (is_product(kind) ? products : vectors).kernel(csv, kind, name);
    if (!kernel) throw_bad_value(csv.place("op"), name, "an operator that is known");
    part.kernel = *kernel;
    if (const auto copies = kind == KernelClass::bmm ? node.copies(csv, part) : std::nullopt) parts.push_back(*copies);
    if (const auto reads = has_two_inputs(name) ? node.forward_reads(csv) : std::nullopt) {
      // An operand that is broadcast is read once.
      part.kernel.tensors = std::clamp(1 + *reads / (part.kernel.m * part.kernel.n), 2.0, 3.0);
    }
    parts.push_back(part);
  }
  return graphs;
}

void read_end_to_end(OpFolder& folder) {
  const std::string rows = folder.path + "/e2e.csv", graph_file = folder.path + "/graph_ops.csv";
  if (!fs::exists(rows)) return;
  std::map<GraphKey, std::vector<StepPart>> graphs;
  if (fs::exists(graph_file)) graphs = read_graphs(graph_file);
  CsvReader csv(rows);
  const CsvColumn gpu = csv.required("gpu"), model = csv.required("model"), mode = csv.required("mode"),
                  option = csv.required("option"), seq = csv.required("seq"), batch = csv.required("batch"),
                  time = csv.required("e2e_ms");
  while (csv.next()) {
    EndToEndRow row;
    row.gpu = known_gpu(folder, csv, gpu);
    row.model = csv.text(model);
    row.mode = csv.text(mode);
    row.option = csv.text(option);
    row.seq = csv.positive_integer(seq);
    row.batch = csv.positive_integer(batch);
    row.sec = csv.positive(time) / 1e3;
    const auto found =
        graphs.find({row.model, row.mode, row.option, std::string(csv.text(seq)), std::string(csv.text(batch))});
    if (found != graphs.end()) row.parts = found->second;
    folder.end_to_end.push_back(std::move(row));
  }
}

}  // namespace

OpFolder read_op_folder(const std::string& path) {
  OpFolder folder;
  folder.path = path;
  if (!fs::is_directory(path)) throw InputError(fmt::format("{}: not a folder", path));
  read_gpus(path + "/gpus.csv", folder);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path().filename().string());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    if (!file.starts_with("op_") || fs::path(file).extension() != ".csv") continue;
    const std::string name = fs::path(file).stem().string().substr(3);
    if (const auto kind = kernel_class(name)) {
      read_ops(fmt::format("{}/{}", path, file), *kind, folder);
    } else {
      folder.skipped.push_back(fmt::format("{}/{}: no class of kernels has this name", path, file));
    }
  }
  read_end_to_end(folder);
  if (folder.rows.empty() && folder.end_to_end.empty()) {
    throw InputError(fmt::format("{}: no rows in op_*.csv or e2e.csv", path));
  }
  return folder;
}

}  // namespace perfpred
