// SPDX-License-Identifier: Apache-2.0
// Networks of transformers, by name and from a config.json.
#include <perfpred/error.h>
#include <perfpred/executed_step.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/network.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "refusal.h"
#include "temporary_folder.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Of the modules that transformers 5.24 makes on the meta device from the published sizes (sum of numel() of
/// parameters(), each once); of DINOv2 without the mask's, which classification does not use. Of Qwen, Baichuan and
/// ChatGLM, which it lacks, as published.
TEST(Pretrained, NetworksHaveTheParametersOfTransformers) {
  const auto published = std::to_array<std::pair<const char*, std::int64_t>>({
      {"codellama_7b", 6'738'546'688},
      {"dinov2_b14", 87'261'928},
      {"dinov2_g14", 1'137'842'664},
      {"dinov2_l14", 305'276'904},
      {"falcon_40b", 41'303'293'952},
      {"falcon_7b", 6'921'720'704},
      {"gemma2_27b", 27'227'128'320},
      {"gemma2_2b", 2'614'341'888},
      {"gemma2_9b", 9'241'705'984},
      {"gemma3_12b", 11'766'034'176},
      {"gemma3_1b", 999'885'952},
      {"gemma3_27b", 27'009'346'304},
      {"gemma3_4b", 3'880'263'168},
      {"gemma_2b", 2'506'172'416},
      {"gemma_7b", 8'537'680'896},
      {"gpt_neox_20b", 20'554'567'680},
      {"granite3_1b_a400m", 1'334'628'352},
      {"granite3_3b_a800m", 3'298'793'472},
      {"llama2_13b", 13'015'864'320},
      {"llama2_70b", 68'976'648'192},
      {"llama2_7b", 6'738'415'616},
      {"llama3.1_405b", 405'853'388'800},
      {"llama3.1_70b", 70'553'706'496},
      {"llama3.1_8b", 8'030'261'248},
      {"llama3.2_1b", 1'235'814'400},
      {"llama3.2_3b", 3'212'749'824},
      {"llama3_70b", 70'553'706'496},
      {"llama3_8b", 8'030'261'248},
      {"llama_13b", 13'015'864'320},
      {"llama_30b", 32'528'943'616},
      {"llama_65b", 65'285'660'672},
      {"llama_7b", 6'738'415'616},
      {"mistral_7b", 7'241'732'096},
      {"mixtral_8x22b", 140'620'634'112},
      {"mixtral_8x7b", 46'702'792'704},
      {"phi1.5", 1'418'270'720},
      {"phi2", 2'779'683'840},
      {"phi3_medium", 13'960'238'080},
      {"phi3_mini", 3'821'079'552},
      {"phi4", 14'659'507'200},
      {"pythia_1.4b", 1'414'647'808},
      {"pythia_12b", 11'846'072'320},
      {"pythia_160m", 162'322'944},
      {"pythia_1b", 1'011'781'632},
      {"pythia_2.8b", 2'775'208'960},
      {"pythia_410m", 405'334'016},
      {"pythia_6.9b", 6'857'302'016},
      {"pythia_70m", 70'426'624},
      {"qwen1.5_7b", 7'721'324'544},
      {"qwen1.5_moe_a2.7b", 14'315'784'192},
      {"qwen2.5_0.5b", 494'032'768},
      {"qwen2.5_1.5b", 1'543'714'304},
      {"qwen2.5_14b", 14'770'033'664},
      {"qwen2.5_32b", 32'763'876'352},
      {"qwen2.5_3b", 3'085'938'688},
      {"qwen2.5_72b", 72'706'203'648},
      {"qwen2.5_7b", 7'615'616'512},
      {"qwen2_0.5b", 494'032'768},
      {"qwen2_1.5b", 1'543'714'304},
      {"qwen2_72b", 72'706'203'648},
      {"qwen2_7b", 7'615'616'512},
      {"qwen3_0.6b", 596'049'920},
      {"qwen3_1.7b", 1'720'574'976},
      {"qwen3_14b", 14'768'307'200},
      {"qwen3_30b_a3b", 30'532'122'624},
      {"qwen3_32b", 32'762'123'264},
      {"qwen3_4b", 4'022'468'096},
      {"qwen3_8b", 8'190'735'360},
      {"roberta_base", 124'697'433},
      {"roberta_large", 355'412'057},
      {"smollm2_1.7b", 1'711'376'384},
      {"smollm2_135m", 134'515'008},
      {"smollm2_360m", 361'821'120},
      {"stablelm2_1.6b", 1'644'515'328},
      {"stablelm_3b", 2'795'443'200},
      {"deepseek_r1_llama_8b", 8'030'261'248},
      {"deepseek_r1_qwen_7b", 7'615'616'512},
      {"deit_b_16", 86'567'656},
      {"deit_s_16", 22'050'664},
      {"deit_ti_16", 5'717'416},
      {"distilbert_base", 66'985'530},
      {"distilgpt2", 81'912'576},
      {"distilroberta_base", 82'170'201},
      {"gemma3_270m", 268'098'176},
      {"llama3.3_70b", 70'553'706'496},
      {"ministral_8b", 8'019'808'256},
      {"mistral_nemo_12b", 12'247'782'400},
      {"mistral_small_24b", 23'572'403'200},
      {"opt_1.3b", 1'315'758'080},
      {"opt_125m", 125'239'296},
      {"opt_13b", 12'853'473'280},
      {"opt_2.7b", 2'651'596'800},
      {"opt_30b", 29'974'540'288},
      {"opt_6.7b", 6'658'473'984},
      {"opt_66b", 65'719'701'504},
      {"phi3.5_mini", 3'821'079'552},
      {"phi4_mini", 3'836'021'760},
      {"smollm_1.7b", 1'711'376'384},
      {"smollm_135m", 134'515'008},
      {"smollm_360m", 361'821'120},
      {"vicuna_13b", 13'015'864'320},
      {"vicuna_7b", 6'738'415'616},
      {"vit_s_16", 22'050'664},
      {"vit_ti_16", 5'717'416},
      {"xlm_roberta_base", 278'295'186},
      {"xlm_roberta_large", 560'142'482},
      {"tinyllama_1.1b", 1'100'048'384},
      {"yi_34b", 34'388'917'248},
      {"yi_6b", 6'061'035'520},
      {"baichuan2_7b", 7'505'973'248},
      {"chatglm3_6b", 6'243'584'000},
      {"qwen_7b", 7'721'324'544},
  });
  EXPECT_EQ(published.size(), known_transformers().size());
  for (const auto& [name, params] : published) {
    const std::string text = name;
    const bool images = text.starts_with("dinov2") || text.starts_with("deit") || text.starts_with("vit");
    EXPECT_EQ(Workload::zoo(name, 1, images ? std::vector<std::int64_t>() : std::vector<std::int64_t>{8}).params(),
              params)
        << name;
  }
}

TEST(Pretrained, NamesOfTheHubAreAliases) {
  EXPECT_EQ(Workload::zoo("meta-llama/Llama-3.1-8B", 1, {64}).network, "llama3.1_8b");
  EXPECT_EQ(Workload::zoo("Qwen/Qwen2.5-7B-Instruct", 1, {64}).network, "qwen2.5_7b");
  EXPECT_EQ(Workload::zoo("Llama-3.1-8B", 1, {64}).network, "llama3.1_8b");  // without its owner
  EXPECT_EQ(Workload::zoo("opt-1.3b", 1, {64}).network, "opt_1.3b");
  EXPECT_TRUE(std::is_sorted(known_transformers().begin(), known_transformers().end()));
}

/// RoBERTa's embedding has 514 rows, OPT's 2,050: two come before the first word's.
TEST(Pretrained, PlacesBeforeTheFirstWordHoldNone) {
  EXPECT_EQ(Workload::zoo("roberta_base", 1).input, (std::vector<std::int64_t>{512}));
  EXPECT_EQ(Workload::zoo("opt_125m", 1).input, (std::vector<std::int64_t>{2048}));
  EXPECT_THAT([] { (void)Workload::zoo("opt_125m", 1, {2049}).graph(); },
              ThrowsMessage<InputError>(HasSubstr("input 2049 does not fit opt_125m: it has 2048 positions")));
}

constexpr const char* small_llama =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256,
  "intermediate_size": 768, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2,
  "vocab_size": 2048, "tie_word_embeddings": false})";

/// FLOPs that perfpred.capture records of the module's training step, 2 samples of 256 words, AdamW.
TEST(Pretrained, AConfigIsANetwork) {
  const testing::TemporaryFolder folder;
  const std::string name = add_config(folder.write("config.json", small_llama));
  EXPECT_THAT(name, ::testing::MatchesRegex("config:[0-9a-f]{12}"));
  Workload workload = Workload::zoo(name, 2, {256});
  EXPECT_EQ(workload.params(), 3'311'360);
  EXPECT_EQ(workload.graph().totals().conv_matmul_flops, 9'261'023'232);
  EXPECT_EQ(Workload::from_key(workload.key()), workload);
}

TEST(Pretrained, TheTextOfAConfigIsTheNetworkOfItsFile) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(add_config_text(small_llama), add_config(folder.write("config.json", small_llama)));
  EXPECT_THAT(testing::refusal([] { (void)add_config_text("[]"); }), HasSubstr("config: is not a JSON object"));
}

/// A service that is sent ever new ones does not grow.
TEST(Pretrained, TheLastTextsOfConfigsAreKnown) {
  const testing::TemporaryFolder folder;
  std::string file_text = small_llama;
  const std::string file = add_config(folder.write("config.json", file_text.insert(1, "\"of\": \"a file\",")));
  std::string first, last;
  for (int i = 0; i <= 10'000; ++i) {
    std::string text = small_llama;
    last = add_config_text(text.insert(1, "\"i\": " + std::to_string(i) + ","));
    if (i == 0) first = last;
  }
  EXPECT_NO_THROW((void)Workload::zoo(last, 1, {8}));
  EXPECT_NO_THROW((void)Workload::zoo(file, 1, {8}));
  EXPECT_THAT([&] { (void)Workload::zoo(first, 1, {8}); }, ThrowsMessage<InputError>(HasSubstr("was not given")));
}

TEST(Pretrained, AFileSaysHowManyLayersThereAre) {
  const testing::TemporaryFolder folder;
  for (const auto& [key, message] :
       {std::pair("\"num_hidden_layers\": 3, ", "config.json: num_hidden_layers is missing"),
        {"\"hidden_size\": 256,", "config.json: hidden_size is missing"}}) {
    std::string text = small_llama;
    text.erase(text.find(key), std::string(key).size());
    EXPECT_THAT(testing::refusal([&] { (void)add_config(folder.write("config.json", text)); }),
                ::testing::HasSubstr(message));
  }
}

TEST(Pretrained, PackedWeightsOfAFileAreNotTakenForOthers) {
  const testing::TemporaryFolder folder;
  const auto asked = [&](const char* quantization, Weights weights) {
    std::string text = small_llama;
    text.insert(1, quantization);
    Workload workload = Workload::zoo(add_config(folder.write("config.json", text)), 2, {256});
    workload.weights = weights;
    if (weights == Weights::int4) workload.adapter = "lora:r=16,targets=all";
    return testing::refusal([&] { (void)workload.graph(); });
  };
  const char* gptq = R"("quantization_config": {"quant_method": "gptq", "bits": 4},)";
  EXPECT_THAT(asked(gptq, Weights::as_precision), ::testing::HasSubstr("has a quantization_config (gptq, 4 bits): w"));
  EXPECT_THAT(
      asked(R"("quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": true},)", Weights::as_precision),
      ::testing::HasSubstr("(bitsandbytes, 8 bits)"));
  EXPECT_EQ(asked(gptq, Weights::int4), "");
  EXPECT_EQ(asked(gptq, Weights::bf16), "");
  EXPECT_EQ(asked("", Weights::as_precision), "");
}

TEST(Pretrained, TheNearestArchitectureIsOfTheSameType) {
  const testing::TemporaryFolder folder;
  for (const auto& [name, type, nearest] : {std::tuple("BertForSequenceClassification", "bert", "BertForMaskedLM"),
                                            {"BertModel", "bert", "BertForMaskedLM"},
                                            {"RobertaForSequenceClassification", "roberta", "RobertaForMaskedLM"},
                                            {"LlamaForSequenceClassification", "llama", "LlamaForCausalLM"}}) {
    const std::string text = std::string(R"({"architectures": [")") + name + R"("], "model_type": ")" + type + "\"}";
    EXPECT_THAT(testing::refusal([&] { (void)add_config(folder.write("config.json", text)); }),
                ::testing::EndsWith(std::string("; the nearest is ") + nearest));
  }
}

/// What perfpred.capture recorded of transformers' and peft's modules (scripts/config_zoo.py --store).
TEST(Pretrained, StepsAreThoseOfTransformersAndPeft) {
  const std::string folder = PERFPRED_SOURCE_DIR "/tests/data/transformers/";
  std::ifstream steps(folder + "steps.csv");
  std::string line;
  std::getline(steps, line);
  int compared = 0;
  for (; std::getline(steps, line); ++compared) {
    SCOPED_TRACE(line);
    const std::size_t quote = line.find('"'), end = line.find('"', quote + 1);
    const std::string config = line.substr(0, quote - 1);
    std::istringstream counts(line.substr(end + 2)), fields(line.substr(quote + 1, end - quote - 1));
    double params = 0, flops = 0, peak = 0;
    char comma = 0;
    counts >> params >> comma >> flops >> comma >> peak;
    const bool images = config == "vit" || config.starts_with("dinov2") || config.starts_with("swin");
    Workload workload = Workload::zoo(add_config(folder + config + ".json"), 2,
                                      images ? std::vector<std::int64_t>() : std::vector<std::int64_t>{256});
    workload = with_field(workload, "optimizer", "adamw");
    for (std::string field; std::getline(fields, field, ';');) {
      const std::size_t equals = field.find('=');
      workload = with_field(workload, field.substr(0, equals), field.substr(equals + 1));
    }
    const OpGraph graph = workload.graph();
    const double mask = config.starts_with("dinov2") ? 256 : 0;  // a parameter that classification does not use
    EXPECT_EQ(static_cast<double>(graph.params()) + mask, params);
    EXPECT_NEAR(graph.totals().conv_matmul_flops / flops, 1, 0.01);
    const MemoryEstimate memory = estimate_memory(execute(graph, DeviceKind::other), TrainingJob());
    EXPECT_NEAR(static_cast<double>(memory.peak_bytes) / peak, 1, 0.03);
  }
  EXPECT_GE(compared, 30);
}

/// Liu et al. 2021 (Swin-T), as torchvision has it, too.
TEST(Pretrained, ASwinIsTorchvisions) {
  const testing::TemporaryFolder folder;
  const std::string name =
      add_config(folder.write("config.json", R"({"architectures": ["SwinForImageClassification"]})"));
  const Workload ours = Workload::zoo(name, 4), of_torchvision = Workload::zoo("swin_t", 4);
  EXPECT_EQ(ours.params(), 28'288'354);
  EXPECT_EQ(of_torchvision.params(), 28'288'354);
  const auto forward = [](const Workload& workload) {
    return workload.graph().totals(Phase::forward).conv_matmul_flops;
  };
  EXPECT_EQ(forward(ours), forward(of_torchvision));
  // Written out, the backward pass has no product a second time.
  const Workload eager = with_field(ours, "attention", "eager");
  EXPECT_EQ(eager.graph().totals().conv_matmul_flops, of_torchvision.graph().totals().conv_matmul_flops);
  EXPECT_EQ(eager.params(), ours.params());
  const Workload checkpointed = with_field(ours, "checkpoint", "all");
  EXPECT_GT(checkpointed.graph().totals().conv_matmul_flops, 1.2 * ours.graph().totals().conv_matmul_flops);
  EXPECT_THAT(
      [&] {
        (void)Workload::zoo(name, 4, {3, 128, 128}).graph();
      },
      ThrowsMessage<InputError>(HasSubstr("its last stage windows of 7 x 7")));
}

TEST(Pretrained, BadConfigsAreRefused) {
  const testing::TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const std::string& why) {
    const std::string path = folder.write("config.json", text);
    EXPECT_THAT([&] { (void)add_config(path); }, ThrowsMessage<InputError>(HasSubstr(why))) << text;
  };
  const std::string good = small_llama;
  refused(good.substr(0, good.size() / 2), "cut off");
  refused("[]", "is not a JSON object");
  refused(R"({"hidden_size": 8})", "neither architectures nor model_type");
  refused(R"({"architectures": ["LlammaForCausalLM"]})", "not known; the nearest is LlamaForCausalLM");
  refused(R"({"model_type": "llama", "num_hidden_layers": -1})", "num_hidden_layers");
  refused(R"({"model_type": "llama", "num_attention_heads": 7})", "4096 is not a multiple of 7 heads");
  refused(R"({"model_type": "llama", "num_key_value_heads": 3})", "3 heads of keys are no divisor of 32 heads");
  refused(R"({"model_type": "gpt2", "n_positions": 0})", "the number of positions is missing or 0");
  refused(R"({"model_type": "swin", "depths": [2, 2]})", "depths are of 2 stages and num_heads of 4");
  refused(R"({"model_type": "swin", "depths": [2, 0, 2, 2]})", "depths [2,0,2,2] is not a list of integers from 1");
  refused(R"({"model_type": "swin", "num_heads": 3})", "num_heads 3 is not a list");
  refused(R"({"model_type": "swin", "embed_dim": 100})", "3 heads are no divisor of 100 channels");
  refused(R"({"model_type": "swin", "mlp_ratio": 0})", "mlp_ratio 0 is not in 0..64");
  EXPECT_THAT([&] { (void)Workload::zoo("config:0123456789ab", 1, {8}); },
              ThrowsMessage<InputError>(HasSubstr("was not given (config, add_config())")));
  const std::string name = add_config(folder.write("config.json", small_llama));
  EXPECT_THAT([&] { (void)Workload::zoo(name, 1); }, ThrowsMessage<InputError>(HasSubstr("input is missing")));
  EXPECT_THAT([&] { (void)Workload::zoo("qwen3_9b", 1); }, ThrowsMessage<InputError>(HasSubstr("did you mean qwen3_")));
}

}  // namespace
}  // namespace perfpred
