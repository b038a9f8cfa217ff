# SPDX-License-Identifier: Apache-2.0
"""Networks that were recorded from packages of PyTorch, by name; and, where transformers is, beside a capture of the very
program."""

import os
import tempfile
import unittest

import perfpred

try:
    import torch
    import transformers
except ImportError:
    torch = transformers = None

JOB = {"device": "A100-80GB-PCIe", "batch_size": 8, "fit_advice": False}


class Records(unittest.TestCase):
    def test_are_found_by_what_people_call_them(self):
        hub = perfpred.predict("google-t5/t5-base", precision="bf16", **JOB)
        name = perfpred.predict("t5_base", precision="bf16", **JOB)
        self.assertEqual(hub.to_dict(), name.to_dict())
        self.assertEqual(name.network, "t5_base@1")
        self.assertEqual(name.params, 222_903_552)  # transformers' own count
        self.assertGreater(name.step_sec.p50, 0)

    def test_are_listed_with_their_origin(self):
        found = {one["name"]: one for one in perfpred.networks("whisper")}
        small = found["whisper_small"]
        self.assertEqual(small["params"], 241_734_912)
        self.assertEqual(small["inputs"], ["80x3000"])
        self.assertIn("openai/whisper-small", small["aliases"])
        self.assertEqual((small["version"], small["licence"]), (1, "Apache-2.0"))
        self.assertTrue(small["source"].startswith("transformers "))

    def test_are_inspected_layer_by_layer(self):
        found = perfpred.inspect("t5_small", batch_size=4)
        self.assertEqual(found.params, 60_506_624)
        self.assertGreater(found.layers["encoder.block.0"].flops, 0)

    def test_say_what_was_recorded(self):
        for fields, says in (
            ({"input": 300}, "was recorded with input 512 and 128, not 300"),
            ({"precision": "fp64"}, "was not recorded in fp64"),
            ({"checkpoint": True}, "was recorded without checkpoint all"),
            ({"accumulate": 2}, "was recorded without accumulate 2"),
        ):
            with self.assertRaisesRegex(perfpred.InputError, says):
                perfpred.predict("t5_base", **{**JOB, **fields})
        with self.assertRaisesRegex(perfpred.InputError, "did you mean t5_base"):
            perfpred.predict("t5_bass", **JOB)


@unittest.skipIf(transformers is None, "transformers is not installed")
class BesideACapture(unittest.TestCase):
    """A record answers as a capture of the program that it was made of, at a batch size that neither has."""

    def captured(self, precision):
        from perfpred._capture.session import Session

        with Session():
            model = transformers.T5ForConditionalGeneration(
                transformers.T5Config(decoder_start_token_id=0)
            )
        optimizer = torch.optim.AdamW(model.train().parameters(), fused=True)
        half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
        read, written = (
            torch.zeros(8, length, dtype=torch.long, device="meta")
            for length in (512, 128)
        )
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.json")
            with perfpred.capture(path, batch_size=8):
                scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16")
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=half, enabled=half is not None):
                    loss = model(input_ids=read, labels=written).loss
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            return perfpred.predict(path, device=JOB["device"], fit_advice=False)

    def test_in_each_precision(self):
        if not transformers.__version__.startswith("5.24."):
            self.skipTest("the record is of transformers 5.24")
        for precision in ("default", "bf16", "fp16"):
            with self.subTest(precision=precision):
                fresh = self.captured(precision)
                record = perfpred.predict(
                    "t5_small", precision=precision, optimizer="adamw", **JOB
                )
                self.assertEqual(record.params, fresh.params)
                for one, other in (
                    (record.flops, fresh.flops),
                    (record.step_sec.p50, fresh.step_sec.p50),
                    (record.memory_bytes, fresh.memory_bytes),
                ):
                    self.assertAlmostEqual(one / other, 1, delta=0.005)


if __name__ == "__main__":
    unittest.main()
