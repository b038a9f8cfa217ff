# SPDX-License-Identifier: Apache-2.0
"""FLOPs, parameters and layers of a step, beside torchvision's and those that PyTorch's own counter finds."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import perfpred

try:
    import torch
    from torch.utils.flop_counter import FlopCounterMode
except ImportError:
    torch = None
try:
    import torchvision
except ImportError:
    torchvision = None
try:
    import transformers
except ImportError:
    transformers = None

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def counted(function):
    """FLOPs of products and convolutions, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


def leaves(layer):
    return (
        [leaf for child in layer.children for leaf in leaves(child)]
        if layer.children
        else [layer]
    )


class Timelines(unittest.TestCase):
    def test_a_timeline_ends_with_the_predicted_step(self):
        job = {"network": "gpt2", "batch_size": 8, "precision": "bf16"}
        job["device"] = "A100-SXM4-80GB"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.json")
            trace = perfpred.timeline(**job, path=path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file), trace)
        events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        end = max(event["ts"] + event["dur"] for event in events)
        step = perfpred.predict(**job).step_sec.p50
        self.assertAlmostEqual(end / (1e6 * step), 1, places=6)

    def test_a_timeline_has_one_step(self):
        with self.assertRaisesRegex(perfpred.InputError, "batch_size is a list"):
            perfpred.timeline("gpt2", device="T4", batch_size=[1, 2])


class Inspections(unittest.TestCase):
    @unittest.skipIf(torchvision is None, "torchvision is not there")
    def test_resnet_is_torchvisions(self):
        found = perfpred.inspect("resnet50", batch_size=2)
        with torch.device("meta"):
            net, images = torchvision.models.resnet50(), torch.zeros(2, 3, 224, 224)
        self.assertEqual(found.params, sum(p.numel() for p in net.parameters()))
        phases = found.to_dict()["phases"]
        products = counted(lambda: net(images))
        self.assertEqual(phases["forward"]["conv_matmul_flops"], products)
        both = counted(lambda: net(images).sum().backward())
        self.assertEqual(found.to_dict()["conv_matmul_flops"], both)
        self.assertGreater(found.forward_flops, products)  # with elementwise operators
        self.assertLess(found.forward_flops, 1.02 * products)
        for name, module in net.named_children():
            own = sum(p.numel() for p in module.parameters())
            if own:
                self.assertEqual(found.layers[name].params, own, name)
        self.assertEqual(
            found.layers["layer1.0.conv1"].output, "2x64x56x56"
        )  # He et al. 2016, table 1

    @unittest.skipIf(transformers is None, "transformers is not there")
    def test_a_small_bert_is_that_of_transformers(self):
        config = transformers.BertConfig(
            vocab_size=100,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            architectures=["BertForMaskedLM"],
            attn_implementation="eager",
        )
        with tempfile.TemporaryDirectory() as folder:
            config.save_pretrained(folder)
            found = perfpred.inspect(
                os.path.join(folder, "config.json"),
                batch_size=2,
                input=16,
                attention="eager",
            )
        with torch.device("meta"):
            net = transformers.BertForMaskedLM(config)
            words = torch.zeros(2, 16, dtype=torch.long)
        self.assertEqual(found.params, sum(p.numel() for p in net.parameters()))
        forward = found.to_dict()["phases"]["forward"]["conv_matmul_flops"]
        self.assertEqual(forward, counted(lambda: net(input_ids=words)))

    @unittest.skipIf(torch is None, "torch is not there")
    def test_a_module_is_counted_as_torch_counts_it(self):
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten()),
            torch.nn.Linear(8 * 36, 10),
        )
        images = torch.zeros(4, 3, 8, 8)
        found = perfpred.inspect(net, images)
        self.assertEqual(found.batch_size, 4)
        self.assertEqual(found.params, sum(p.numel() for p in net.parameters()))
        self.assertEqual(
            found.to_dict()["conv_matmul_flops"],
            counted(lambda: net(images).mean().backward()),
        )
        answer = perfpred.predict(net, images, device="T4", fit_advice=False)
        on_t4 = perfpred.inspect(net, images, device="T4")
        self.assertEqual((answer.params, answer.flops), (found.params, on_t4.flops))
        self.assertEqual(
            [layer.name for layer in found.layers.children], ["0", "1", "2", ""]
        )
        self.assertEqual(found.layers["1.0"].name, "1.0")
        self.assertEqual(found.layers["2"].params, 10 * (8 * 36 + 1))

    def test_layers_are_a_tree(self):
        found = perfpred.inspect("resnet18", batch_size=2, device="T4")
        self.assertEqual(found.layers.params, found.params)
        self.assertEqual(found.layers.flops, found.flops)
        self.assertEqual(found.layers.bytes, found.bytes)
        self.assertEqual(
            sum(child.params for child in found.layers.children), found.params
        )
        names = [leaf.name for leaf in leaves(found.layers)]
        self.assertEqual(
            sorted(names), sorted(one["name"] for one in found.to_dict()["layers"])
        )
        self.assertRaises(KeyError, lambda: found.layers["layer9"])
        self.assertEqual(found.to_dict()["device"]["name"], "T4")

    def test_prints_two_levels_and_all_when_asked(self):
        found = perfpred.inspect("resnet18", batch_size=2)
        text = str(found)
        self.assertTrue(
            text.startswith("resnet18 batch_size=2: 11,689,512 parameters, ")
        )
        self.assertIn("\nlayer1 ", text)
        self.assertIn("\n  0 ", text)
        self.assertNotIn("conv1 ", text.partition("\nlayer1 ")[2])
        self.assertEqual(found.tree(2), text.partition("\n")[2])
        self.assertIn("\n    conv1 ", found.tree())
        self.assertLess(len(found.tree(1)), len(found.tree(2)))

    def test_ranks_have_memory_alone(self):
        found = perfpred.inspect(
            "gpt2", batch_size=1, gpus_per_node=2, parallel="tp=2", precision="bf16"
        )
        self.assertIsNone(found.flops)
        self.assertGreater(found.memory["peak_bytes"], 0)
        self.assertIn("parallel=tp=2", str(found))

    def test_what_is_wrong_is_said(self):
        with self.assertRaisesRegex(perfpred.InputError, "did you mean resnet50"):
            perfpred.inspect("resent50")
        with self.assertRaisesRegex(perfpred.InputError, "batch_size is a list"):
            perfpred.inspect("resnet50", batch_size=[1, 2])


class Networks(unittest.TestCase):
    def test_are_listed(self):
        names = [network["name"] for network in perfpred.networks()]
        self.assertIn("resnet50", names)
        self.assertIn("llama3.1_8b", names)
        found = {one["name"]: one for one in perfpred.networks("vit-b/16")}
        vit = found["vit_b_16"]
        self.assertEqual(
            (vit["name"], vit["params"], vit["input"], vit["classes"]),
            ("vit_b_16", 86_567_656, "3x224x224", 1000),
        )  # torchvision's
        with self.assertRaisesRegex(perfpred.InputError, "did you mean resnet50"):
            perfpred.networks("resent50")


class Commands(unittest.TestCase):
    """python -m perfpred, with the program of the build or of the package."""

    def run_program(self, *words):
        return subprocess.run(
            [sys.executable, "-m", "perfpred", *words],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": PACKAGE},
        )

    def test_are_those_of_the_core(self):
        done = self.run_program("networks", "resnet50", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            json.loads(done.stdout)["networks"], perfpred.networks("resnet50")
        )
        refused = self.run_program("inspect", "--network", "resent50")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("did you mean resnet50?", refused.stderr)
        self.assertIn(perfpred.__version__, self.run_program("--version").stdout)


if __name__ == "__main__":
    unittest.main()
