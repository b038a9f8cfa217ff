# SPDX-License-Identifier: Apache-2.0
"""Scripts that are captured untouched, and what is refused."""

import contextlib
import io
import json
import os
import subprocess
import sys
import textwrap
import unittest

import torch
from captures import Captures, Scripts
from torch import nn

import perfpred
from perfpred._capture.command import main

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Untouched(Scripts):
    SCRIPT = """
        import argparse
        import torch
        import torch.nn.functional as F

        parser = argparse.ArgumentParser()
        parser.add_argument("--fail", action="store_true")
        parser.add_argument("--amp", action="store_true")
        options = parser.parse_args()
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


        class Pictures(torch.utils.data.Dataset):
            def __len__(self):
                return 1000

            def __getitem__(self, index):
                return torch.randn(3, 16, 16), index % 10


        model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(6272, 10))
        model.cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler("cuda", enabled=options.amp)
        average = torch.optim.swa_utils.AveragedModel(model)
        loader = torch.utils.data.DataLoader(Pictures(), batch_size=8, num_workers=2, pin_memory=True)
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device, non_blocking=True), y.cuda()
            with torch.autocast("cuda", dtype=torch.float16, enabled=options.amp):
                loss = F.cross_entropy(model(x), y) / 2
            scaler.scale(loss).backward()
            if options.fail:
                raise ValueError("of the script")
            if step % 2 == 1:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                average.update_parameters(model)
            print(f"{step} {loss.item():.3f} {loss:.3f}", loss.detach().cpu().tolist())
        """

    def line_of(self, text):
        lines = textwrap.dedent(self.SCRIPT).lstrip().splitlines()
        return "train.py:" + str(
            1 + next(i for i, line in enumerate(lines) if text in line)
        )

    def test_an_untouched_script(self):
        command = [
            sys.executable,
            "-m",
            "perfpred.capture",
            "--out",
            self.path,
            "--steps",
            "2",
            self.write_script(),
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": PYTHON},
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(
            self.line_of("loss.item()") + ": asks for a tensor's value", done.stderr
        )
        with open(self.path) as file:
            document = json.load(file)
        names = [op["name"] for op in document["ops"]]
        self.assertEqual(
            names.count("aten::convolution"), 1
        )  # accumulates the gradients of two batches
        self.assertEqual(names.count("aten::_foreach_norm"), 1)
        self.assertIn(
            "aten::_foreach_lerp_", names[names.index("aten::_foreach_addcdiv_") :]
        )  # the average
        self.assertEqual((document["batch_size"], document["accumulate"]), (8, 2))
        self.assertNotIn("aten::uniform_", names)

    def test_two_batch_sizes_give_all(self):
        code, said = self.run_script(
            arguments=["--amp"], options=["--batch-sizes", "4,6"]
        )
        self.assertEqual(code, 0, said)
        with open(self.path) as file:
            joined = json.load(file)
        direct = os.path.join(self.folder.name, "direct.json")
        code, said = self.run_script(arguments=["--amp"], out=direct)
        self.assertEqual(code, 0, said)
        with open(direct) as file:
            direct = json.load(file)
        self.assertEqual(len(joined["tensors"]), len(direct["tensors"]))
        for tensor, expected in zip(joined["tensors"], direct["tensors"]):
            growth = tensor.get("growth", [0] * len(tensor["sizes"]))
            self.assertEqual(
                [s + 4 * g for s, g in zip(tensor["sizes"], growth)], expected["sizes"]
            )
        step, exact = (
            self.inspected("--step", self.path, "--batch-size", "8"),
            self.inspected("--step", os.path.join(self.folder.name, "direct.json")),
        )
        del step["network"], exact["network"]
        self.assertEqual(step, exact)

    def test_a_terminal_shows_how_far_it_is(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        text = """
            import sys, time
            import torch
            layer = torch.nn.Linear(6, 5)
            optimizer = torch.optim.SGD(layer.parameters(), 0.1)
            for step in range(2):
                layer(torch.randn(int(sys.argv[1]), 6)).sum().backward()
                time.sleep(1.2)
                optimizer.step()
            """
        arguments = [
            "--out",
            self.path,
            "--steps",
            "1",
            "--batch-sizes",
            "4,8",
            self.write_script(text),
            "{batch_size}",
        ]
        for kind in (Terminal, io.StringIO):
            with contextlib.redirect_stderr(kind()) as said:
                self.assertEqual(main(arguments), 0, said.getvalue())
            shown = said.getvalue().split("\r")
            self.assertEqual(len(shown[-1].strip("\x1b[K").splitlines()), 1)
            self.assertIn("wrote", shown[-1])
            if kind is io.StringIO:
                self.assertEqual(len(shown), 1)
                continue
            first, second = (
                [line for line in shown if f"batch size {size}," in line]
                for size in (4, 8)
            )
            self.assertRegex(
                first[0],
                r"^perfpred.capture: step 1 of 1 at batch size 4, \d+ operators, \d+ s\x1b",
            )
            self.assertRegex(second[-1], r"\d+ s left")

    def test_a_batch_that_the_script_fixes_is_not_said_to_be_any(self):
        text = """
            import sys
            import torch
            model = torch.nn.Linear(3, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model(torch.randn(int(sys.argv[1]), 3)).sum().backward()
            optimizer.step()
            """
        sizes = ["--batch-sizes", "4,6"]
        self.refused(
            text,
            "no tensor differs at batch sizes 4 and 6",
            options=sizes,
            arguments=["8"],
        )
        code, said = self.run_script(text, options=sizes, arguments=["{batch_size}"])
        self.assertEqual(code, 0, said)

    def test_several_forward_passes_before_one_backward_pass(self):
        text = """
            import torch
            first, second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
            optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
            print(second(first(torch.randn(1, 3))).shape)  # belongs to no step
            for _ in range(3):
                a, b = (second(first(torch.randn(8, 3))) for _ in range(2))
                (a - b).square().sum().backward()
                optimizer.step()
            """
        for step in ("1", "2"):
            code, said = self.run_script(text, options=["--steps", step])
            self.assertEqual(code, 0, said)
            with open(self.path) as file:
                document = json.load(file)
            self.assertEqual(
                [op["name"] for op in document["ops"]].count("aten::addmm"), 4
            )
            self.assertEqual(
                (document["batch_size"], document.get("batches")), (8, None)
            )

    def test_a_step_of_two_optimizers(self):
        text = """
            import torch
            generator, judge = torch.nn.Linear(2, 6), torch.nn.Linear(6, 1)
            of_generator, of_judge = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (generator, judge))
            for _ in range(4):
                made = generator(torch.randn(8, 2))
                judge(made.detach()).sum().backward()
                of_judge.step()
                judge(made).sum().backward()
                of_generator.step()
                of_generator.zero_grad()
                of_judge.zero_grad()
            """
        for updates, said_so, products in (
            (1, 1, 2 + 1),
            (2, 0, 3 + 4),
        ):  # forward and backward
            for step in (1, 2) if updates == 2 else (1,):
                options = ["--updates", str(updates), "--steps", str(step)]
                code, said = self.run_script(text, options=options)
                self.assertEqual(
                    (code, said.count("no update by 1 of the optimizers")),
                    (0, said_so),
                    said,
                )
                with open(self.path) as file:
                    names = [op["name"] for op in json.load(file)["ops"]]
                self.assertEqual(names.count("aten::_foreach_add_"), updates)
                self.assertEqual(
                    names.count("aten::addmm") + names.count("aten::mm"), products
                )

    OF_SEVERAL_PROCESSES = """
        import os
        import sys
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel


        def train(rank, processes):
            dist.init_process_group("nccl", rank=rank, world_size=processes)
            torch.cuda.set_device(rank)
            assert torch.cuda.get_device_properties(rank).total_memory > 0
            model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
            model = DistributedDataParallel(torch.nn.SyncBatchNorm.convert_sync_batchnorm(model).to(rank), [rank])
            torch.save(model.module.state_dict(), sys.argv[1])
            model.module.load_state_dict(torch.load(sys.argv[1], map_location="cuda"))
            model = torch.nn.DataParallel(model.module) if len(sys.argv) > 3 else model
            optimizer = torch.optim.Adam(model.parameters(), capturable=True)
            data = [torch.randn(3, 8, 8) for _ in range(16)]
            for x in torch.utils.data.DataLoader(data, 8, sampler=torch.utils.data.DistributedSampler(data)):
                loss = model(x.to(rank)).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                dist.all_reduce(loss)
                dist.barrier()


        if __name__ == "__main__":
            torch.multiprocessing.spawn(train, (int(sys.argv[2]),), nprocs=int(sys.argv[2]))
        """

    def test_a_world_of_one_process(self):
        weights = os.path.join(self.folder.name, "weights.pt")
        for more in ((), ("DataParallel",)):
            arguments = [weights, "1", *more]
            code, said = self.run_script(
                self.OF_SEVERAL_PROCESSES, arguments, options=["--batch-sizes", "4,6"]
            )
            self.assertEqual(code, 0, said)
            with open(self.path) as file:
                document = json.load(file)
            self.assertIn("without communication", document["notes"][0])
            names = [op["name"] for op in document["ops"]]
            self.assertEqual(
                names[:3], ["aten::convolution", "aten::add_", "aten::empty"]
            )
            self.assertFalse([name for name in names if "c10d" in name])
            os.remove(self.path)
        self.refused(
            self.OF_SEVERAL_PROCESSES,
            ": asks for 2 processes",
            arguments=[weights, "2"],
        )
        self.assertFalse(torch.distributed.is_initialized())

    def test_what_torchrun_sets(self):
        self.refused(
            "import os\nrank = int(os.environ['LOCAL_RANK'])\n",
            "train.py:2: asks for LOCAL_RANK, which torchrun",
        )

    def test_what_is_computed_before_the_network_that_is_trained(self):
        text = """
            import sys
            import torch
            student, teacher, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2), torch.nn.Linear(3, 5)
            optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
            with torch.no_grad():
                other(torch.ones(8, 3))  # a look at another network
            for _ in range(int(sys.argv[1])):
                x = torch.randn(8, 3).cuda()
                with torch.no_grad():
                    wanted = teacher(x)
                (student(x) - wanted).square().sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            """
        for steps in ("1", "3"):
            code, said = self.run_script(text, [steps])
            self.assertEqual(code, 0, said)
            with open(self.path) as file:
                names = [op["name"] for op in json.load(file)["ops"]]
            self.assertEqual(names.count("aten::addmm"), 2, steps)

    def test_a_batch_of_one_is_another_step(self):
        text = """
            import sys
            import torch
            model = torch.nn.Linear(3, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            x = torch.randn(int(sys.argv[1]), 4, 3).cuda()
            model(x).transpose(0, 1).reshape(-1, 2).sum().backward()
            optimizer.step()
            """
        sizes = ["--batch-sizes", "1,2"]
        self.refused(
            text, "take two sizes above 1", options=sizes, arguments=["{batch_size}"]
        )

    def refused(self, text, message, code=2, **options):
        got, said = self.run_script(text, **options)
        self.assertEqual(got, code, said)
        self.assertIn(message, said)
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertEqual([f for f in os.listdir(self.folder.name) if "json" in f], [])

    def test_what_cannot_be_captured_is_said_in_a_line(self):
        self.refused("print('hello')\n", "train.py: made no training step")
        self.refused("for\n", "train.py:1: SyntaxError", code=1)
        self.refused(
            None,
            self.line_of("raise") + ": ValueError: of the script",
            code=1,
            arguments=["--fail"],
        )
        self.refused(
            None,
            "there is no folder",
            out=os.path.join(self.folder.name, "missing", "step.json"),
        )

    def test_an_interrupted_script_writes_nothing(self):
        self.refused(
            """
            import signal
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.raise_signal(signal.SIGINT)
            """,
            "interrupted",
            code=1,
        )


class Refusals(Captures):
    def refusal(self, step):
        with self.assertRaises(perfpred.CaptureError) as caught:
            self.captured(step)
        self.assertFalse(os.path.exists(self.path))
        self.assertIn(os.path.basename(__file__), str(caught.exception))
        return str(caught.exception)

    def test_shapes_that_depend_on_values(self):
        x = torch.randn(8, 6, requires_grad=True)
        self.assertRegex(
            self.refusal(lambda: x[torch.unique(x[:, 0].long())].sum().backward()),
            "the shape of the result of aten::_unique2.* execute",
        )

    def test_an_operator_without_shapes(self):
        library = torch.library.Library("perfpred_test", "DEF")
        library.define("secret(Tensor x) -> Tensor")
        library.impl("secret", lambda x: x * 2, "CUDA")
        x = torch.randn(8, 6, requires_grad=True)
        message = self.refusal(
            lambda: torch.ops.perfpred_test.secret(x).sum().backward()
        )
        self.assertIn('torch.library.register_fake("perfpred_test::secret")', message)

    def test_no_step(self):
        with self.assertRaisesRegex(perfpred.CaptureError, "no operator was executed"):
            self.captured(lambda: None)
        with self.assertRaisesRegex(perfpred.CaptureError, "no backward pass"):
            self.captured(lambda: nn.Linear(3, 2)(torch.ones(4, 3)))

    def test_the_programs_own_exceptions_pass(self):
        with self.assertRaises(ZeroDivisionError):
            self.captured(lambda: 1 / 0)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_steps_that_differ_are_not_joined(self):
        documents = []
        for width, batch in ((5, 4), (7, 8)):
            model = nn.Linear(6, width)
            documents.append(
                self.captured(lambda: model(torch.randn(batch, 6)).sum().backward())
            )
        with self.assertRaisesRegex(
            perfpred.CaptureError, "do not grow by a whole number"
        ):
            perfpred.combine(*documents)
        with self.assertRaisesRegex(
            perfpred.CaptureError, "both files have the batch size 4"
        ):
            perfpred.combine(documents[0], documents[0])
        gone = os.path.join(self.folder.name, "gone.json")
        with self.assertRaisesRegex(perfpred.CaptureError, "gone.json: No such file"):
            perfpred.combine(gone, gone, self.path)
        with open(gone, "w") as file:
            file.write("{")
        with self.assertRaisesRegex(
            perfpred.CaptureError, "gone.json: is not a step file"
        ):
            perfpred.combine(gone, gone)


if __name__ == "__main__":
    unittest.main()
