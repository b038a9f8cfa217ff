# SPDX-License-Identifier: Apache-2.0
"""perfpred.measure in the training loops of Lightning and transformers, where these are there."""

import importlib.util
import logging
import os
import unittest
import warnings

import torch
from test_measure import Loop
from torch import nn

import perfpred


def there(*packages):
    found = all(importlib.util.find_spec(package) for package in packages)
    return unittest.skipUnless(found, f"{' and '.join(packages)} are not there")


class Callback(Loop):
    def setUp(self):
        super().setUp()
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        warnings.simplefilter("ignore")


@there("lightning")
class Lightning(Callback):
    def trained(self, callback, loader, **options):
        import lightning.pytorch as lightning

        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        network = self.network

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.network = network

            def training_step(self, batch, _):
                return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.1)

        quiet = {
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
        }
        quiet["enable_model_summary"] = False
        trainer = lightning.Trainer(
            accelerator="cpu", callbacks=[callback], **quiet, **options
        )
        trainer.fit(Module(), loader)
        return self.rows()[-1]

    def test_a_run_is_measured(self):
        callback = perfpred.measure.LightningCallback(self.path, network="mine")
        row = self.trained(callback, self.loader(), max_epochs=1)
        self.assertEqual(
            (row["batch_size"], row["optimizer"], row["train_images"]),
            ("4", "sgd", "40"),
        )
        self.assertEqual(
            (row["params"], row["precision"], row["accumulate"]),
            (str(self.PARAMS), "fp32", ""),
        )
        self.assertIn(row["outcome"], ("ok", "untrusted"))
        self.assertEqual(self.taken(callback.measured), 8)

    def test_accumulation_and_precision(self):
        callback = perfpred.measure.LightningCallback(self.path, network="mine")
        options = {
            "precision": "bf16-mixed",
            "accumulate_grad_batches": 2,
            "max_epochs": 1,
        }
        row = self.trained(callback, self.loader(80), **options)
        self.assertEqual(
            (row["batch_size"], row["accumulate"], row["precision"]), ("4", "2", "bf16")
        )
        self.assertEqual(self.taken(callback.measured), 8)

    def test_the_step_is_captured(self):
        row = self.trained(
            perfpred.measure.LightningCallback(self.path, capture=True),
            self.loader(),
            max_epochs=1,
        )
        self.assertRegex(row["network"], "^step:[0-9a-f]{12}$")

    def test_an_exception_leaves_a_row(self):
        class Failing(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner, self.calls = inner, 0

            def forward(self, x):
                self.calls += 1
                if self.calls == 6:
                    raise ValueError("a bad batch")
                return self.inner(x)

        self.network = Failing(self.network)
        callback = perfpred.measure.LightningCallback(self.path, network="mine")
        with self.assertRaisesRegex(ValueError, "a bad batch"):
            self.trained(callback, self.loader(), max_epochs=1)
        self.assertEqual(
            (self.rows()[-1]["outcome"], self.rows()[-1]["note"]),
            ("failed", "a bad batch"),
        )


@there("transformers", "accelerate")
class Transformers(Callback):
    def trained(self, callback, **options):
        import transformers

        config = transformers.GPT2Config(
            n_layer=1, n_embd=16, n_head=2, vocab_size=64, n_positions=16
        )
        model = transformers.GPT2LMHeadModel(config)
        words = torch.randint(0, 64, (40, 16))
        data = [{"input_ids": w, "labels": w} for w in words]
        arguments = transformers.TrainingArguments(
            self.folder.name, per_device_train_batch_size=4, num_train_epochs=1, use_cpu=True, report_to=[],
            save_strategy="no", logging_steps=3, disable_tqdm=True, **options,
        )  # fmt: skip
        trainer = transformers.Trainer(
            model, arguments, train_dataset=data, callbacks=[callback]
        )
        trainer.train()
        return model, self.rows()[-1]

    def test_a_run_is_measured(self):
        callback = perfpred.measure.TrainerCallback(self.path, network="tiny_gpt2")
        model, row = self.trained(callback)
        self.assertEqual(
            (row["batch_size"], row["optimizer"], row["train_images"]),
            ("4", "adamw", "40"),
        )
        self.assertEqual((row["input"], row["classes"]), ("16", "64"))
        self.assertEqual(row["params"], str(sum(p.numel() for p in model.parameters())))
        self.assertIn(row["outcome"], ("ok", "untrusted"))
        self.assertEqual(self.taken(callback.measured), 8)

    def test_the_step_is_captured(self):
        model, row = self.trained(
            perfpred.measure.TrainerCallback(self.path, capture=True)
        )
        self.assertRegex(row["network"], "^step:[0-9a-f]{12}$")
        self.assertTrue(all(torch.isfinite(p).all() for p in model.parameters()))

    def test_accumulation_and_precision(self):
        callback = perfpred.measure.TrainerCallback(self.path, network="tiny_gpt2")
        _, row = self.trained(callback, gradient_accumulation_steps=2, bf16=True)
        self.assertEqual(
            (row["batch_size"], row["accumulate"], row["precision"]), ("4", "2", "bf16")
        )


if __name__ == "__main__":
    unittest.main()
