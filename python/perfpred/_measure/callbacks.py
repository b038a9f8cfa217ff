# SPDX-License-Identifier: Apache-2.0
"""Callbacks that measure the steps of others' training loops. They are made when they are asked for, since their base
classes are in packages that perfpred does not need.
"""

import importlib
from typing import Any


def lightning_callback(measure, /, path, **options):
    """A callback for the Trainer of Lightning: `Trainer(callbacks=[perfpred.measure.LightningCallback("runs.csv", ...)])`.
    Its arguments are those of perfpred.measure; its `measured` is what that makes.
    """
    base: Any
    try:
        base = importlib.import_module("lightning.pytorch").Callback
    except ModuleNotFoundError:
        base = importlib.import_module("pytorch_lightning").Callback

    class LightningCallback(base):
        def on_train_start(self, trainer, module):
            self.measured = measure(path, **options).__enter__()
            self.measured.note_loader(trainer.train_dataloader)
            self.updates = trainer.global_step

        def on_train_batch_end(self, trainer, module, *_):
            updates, self.updates = self.updates, trainer.global_step
            self.measured.step() if trainer.global_step > updates else self.measured.micro_step()

        def on_validation_start(self, trainer, module):
            if hasattr(self, "measured"):
                self.measured.skip()

        def on_train_end(self, trainer, module):
            self.measured.__exit__(None, None, None)

        def on_exception(self, trainer, module, error):
            if hasattr(self, "measured"):
                self.measured.__exit__(type(error), error, error.__traceback__)

    return LightningCallback()


def trainer_callback(measure, /, path, **options):
    """A callback for the Trainer of transformers: `Trainer(callbacks=[perfpred.measure.TrainerCallback("runs.csv", ...)])`.
    Its arguments are those of perfpred.measure; its `measured` is what that makes. The Trainer does not tell its callbacks
    of an exception: then there is no row.
    """
    base: Any = importlib.import_module("transformers").TrainerCallback

    class TrainerCallback(base):
        def on_train_begin(self, args, state, control, train_dataloader=None, **_):
            self.measured = measure(path, **options).__enter__()
            self.measured.note_loader(train_dataloader)

        def on_substep_end(self, args, state, control, **_):
            self.measured.micro_step()

        def on_step_end(self, args, state, control, **_):
            self.measured.step()

        def on_evaluate(self, args, state, control, **_):
            if hasattr(self, "measured"):
                self.measured.skip()

        def on_save(self, args, state, control, **_):
            self.measured.skip()

        def on_train_end(self, args, state, control, **_):
            self.measured.__exit__(None, None, None)

    return TrainerCallback()
