#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains tiny networks with the software whose logs perfpred-aggregate --from reads, and keeps what it writes.

    make_logs.py FOLDER [NAME ...]

Names are those of the functions below, without `log_`; without one, all. README.md says what each of them needs.
"""
import os
import pathlib
import shutil
import sys
import tempfile
import time

os.environ["KERAS_BACKEND"] = "torch"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch  # noqa: E402

torch.set_num_threads(1)
IMAGES, BATCH, EPOCHS = 512, 32, 4


def pictures():
    torch.manual_seed(0)
    labels = torch.randint(0, 10, (IMAGES,))
    return torch.randn(IMAGES, 3, 16, 16) + labels.view(-1, 1, 1, 1) / 3, labels


def network():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
                               torch.nn.Linear(16 * 16 * 16, 10))


def batches():
    x, y = pictures()
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=BATCH, shuffle=True)


def log_keras(out):
    import keras

    class EpochTime(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.begin = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            logs["epoch_time"] = time.perf_counter() - self.begin

    x, y = pictures()
    for name, callbacks in {"keras_untimed.csv": [], "keras.csv": [EpochTime()]}.items():
        model = keras.Sequential([keras.layers.Input((3, 16, 16)), keras.layers.Flatten(), keras.layers.Dense(10)])
        model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=["accuracy"])
        model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, validation_split=0.25, verbose=0,
                  callbacks=[*callbacks, keras.callbacks.CSVLogger(str(out / name))])


def log_keras_tensorboard(out):
    """With TensorFlow, whose writer the callback uses."""
    import keras

    x, y = pictures()
    model = keras.Sequential([keras.layers.Input((3, 16, 16)), keras.layers.Flatten(), keras.layers.Dense(10)])
    model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    with tempfile.TemporaryDirectory() as folder:
        model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, validation_split=0.25, verbose=0,
                  callbacks=[keras.callbacks.TensorBoard(folder, write_graph=False)])
        keep_events(pathlib.Path(folder) / "train", out / "keras.tfevents")


def keep_events(folder, target):
    """Without the records of texts, which name folders of the machine."""
    (events,) = folder.glob("**/events.out.tfevents.*")
    rest = events.read_bytes()
    with target.open("wb") as out:
        while rest:
            size = 8 + 4 + int.from_bytes(rest[:8], "little") + 4  # length, its checksum, the bytes, theirs
            if b"/text_summary" not in rest[:size]:
                out.write(rest[:size])
            rest = rest[size:]


def log_lightning(out):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network()

        def training_step(self, batch, index):
            loss = torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch, index):
            self.log("val_acc", (self.network(batch[0]).argmax(1) == batch[1]).float().mean())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    monitor = lightning.pytorch.callbacks.ThroughputMonitor(batch_size_fn=lambda batch: len(batch[0]), window_size=10)
    for name, callbacks in {"lightning_untimed.csv": [], "lightning.csv": [monitor]}.items():
        with tempfile.TemporaryDirectory() as folder:
            logger = lightning.pytorch.loggers.CSVLogger(folder)
            lightning.Trainer(max_epochs=EPOCHS, accelerator="cpu", logger=logger, callbacks=callbacks,
                              log_every_n_steps=5, enable_progress_bar=False, enable_checkpointing=False,
                              num_sanity_val_steps=0).fit(Module(), batches(), batches())
            shutil.copy(pathlib.Path(logger.log_dir) / "metrics.csv", out / name)
    with tempfile.TemporaryDirectory() as folder:
        logger = lightning.pytorch.loggers.TensorBoardLogger(folder)
        lightning.Trainer(max_epochs=EPOCHS, accelerator="cpu", logger=logger, log_every_n_steps=5,
                          enable_progress_bar=False, enable_checkpointing=False).fit(Module(), batches())
        keep_events(pathlib.Path(folder), out / "lightning.tfevents")


def log_transformers(out):
    import transformers

    config = transformers.BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                     intermediate_size=64, num_labels=4)
    torch.manual_seed(0)
    rows = [{"input_ids": torch.randint(0, 100, (16,)), "labels": torch.tensor(i % 4)} for i in range(200)]

    def accuracy(predicted):
        return {"accuracy": float((predicted.predictions.argmax(1) == predicted.label_ids).mean())}

    for name, more in {"trainer_state.json": {}, "trainer_state_accumulated.json": {"gradient_accumulation_steps": 2},
                       "trainer_state_steps.json": {"max_steps": 20}}.items():
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(
                folder, per_device_train_batch_size=16, num_train_epochs=3, eval_strategy="epoch", logging_steps=5,
                report_to="tensorboard" if not more else "none", use_cpu=True, save_strategy="no",
                disable_tqdm=True, **more)
            trainer = transformers.Trainer(transformers.BertForSequenceClassification(config), arguments,
                                           train_dataset=rows, eval_dataset=rows[:64], compute_metrics=accuracy)
            trainer.train()
            trainer.save_state()
            shutil.copy(folder + "/trainer_state.json", out / name)
            if not more:
                keep_events(pathlib.Path(folder), out / "transformers.tfevents")


def log_ultralytics(out):
    import numpy
    import ultralytics
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        noise = numpy.random.default_rng(0)
        for part, count in {"train": 32, "val": 8}.items():
            for label in ("a", "b"):
                place = pathlib.Path(folder, "data", part, label)
                place.mkdir(parents=True)
                for i in range(count):
                    Image.fromarray(noise.integers(0, 255, (64, 64, 3), dtype=numpy.uint8)).save(place / f"{i}.png")
        ultralytics.YOLO("yolov8n-cls.yaml").train(data=folder + "/data", epochs=EPOCHS, imgsz=64, batch=16,
                                                   device="cpu", project=folder, name="run", workers=0, plots=False,
                                                   save=False, amp=False, optimizer="SGD")
        shutil.copy(folder + "/run/results.csv", out / "ultralytics.csv")


def log_fastai(out):
    from fastai.callback.progress import CSVLogger
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.metrics import accuracy

    class Slow(torch.nn.Module):  # times are written in whole seconds
        def __init__(self):
            super().__init__()
            self.network = network()

        def forward(self, x):
            if self.training:
                time.sleep(0.1)
            return self.network(x)

    learner = Learner(DataLoaders(batches(), batches()), Slow(), loss_func=torch.nn.functional.cross_entropy,
                      metrics=accuracy, path=out, cbs=CSVLogger("fastai.csv"))
    with learner.no_bar():
        learner.fit(EPOCHS, 0.01)


def log_mlperf(out):
    from mlperf_logging import mllog
    from mlperf_logging.mllog import constants as c

    name = out / "mlperf.log"
    name.unlink(missing_ok=True)
    mllog.config(filename=str(name), default_stack_offset=1)
    log = mllog.get_mllogger()
    log.event(key=c.SUBMISSION_BENCHMARK, value="resnet")
    log.event(key=c.SUBMISSION_PLATFORM, value="1xEXAMPLE")
    log.start(key=c.INIT_START)
    log.event(key=c.GLOBAL_BATCH_SIZE, value=BATCH)
    log.event(key=c.TRAIN_SAMPLES, value=IMAGES)
    log.event(key=c.GRADIENT_ACCUMULATION_STEPS, value=1)
    log.event(key=c.OPT_NAME, value="sgd")
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    data = batches()
    log.end(key=c.INIT_STOP)
    log.start(key=c.RUN_START)
    log.start(key=c.BLOCK_START, metadata={"first_epoch_num": 1, "epoch_count": EPOCHS})
    for epoch in range(1, EPOCHS + 1):
        log.start(key=c.EPOCH_START, metadata={"epoch_num": epoch})
        for x, y in data:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        log.end(key=c.EPOCH_STOP, metadata={"epoch_num": epoch})
        log.start(key=c.EVAL_START, metadata={"epoch_num": epoch})
        with torch.no_grad():
            right = sum(int((net(x).argmax(1) == y).sum()) for x, y in data) / IMAGES
        log.event(key=c.EVAL_ACCURACY, value=right, metadata={"epoch_num": epoch})
        log.end(key=c.EVAL_STOP, metadata={"epoch_num": epoch})
    log.end(key=c.BLOCK_STOP, metadata={"first_epoch_num": 1})
    log.end(key=c.RUN_STOP, metadata={"status": "success"})
    text = name.read_text().replace(__file__, "train.py")
    name.write_text(text)


def log_torch_tensorboard(out):
    from torch.utils.tensorboard import SummaryWriter

    net = network()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)
        step = 0
        for _ in range(EPOCHS):
            for x, y in batches():
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                writer.add_scalar("Loss/train", loss, step)
                step += 1
        writer.close()
        keep_events(pathlib.Path(folder), out / "torch.tfevents")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    target = pathlib.Path(sys.argv[1]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    logs = {name[4:]: function for name, function in list(globals().items()) if name.startswith("log_")}
    for wanted in sys.argv[2:] or logs:
        logs[wanted](target)
