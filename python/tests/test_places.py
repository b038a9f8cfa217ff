# SPDX-License-Identifier: Apache-2.0
"""Tensors say that they are where the program put them."""

import copy
import io
import unittest

import torch
import torch.nn.functional as F
from captures import Captures
from torch import nn


def gradient_penalty(device):
    """Gulrajani et al. 2017."""
    critic = nn.Sequential(
        nn.Conv2d(3, 4, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(4 * 8 * 8, 1),
    ).to(device)
    optimizer = torch.optim.Adam(critic.parameters())
    real, fake = (torch.rand(4, 3, 16, 16).to(device) for _ in range(2))
    share = torch.rand(4, 1, 1, 1, device=device)
    between = (share * real + (1 - share) * fake).requires_grad_(True)
    judged = critic(between)
    ones = torch.ones(judged.size(), device=device)
    (gradient,) = torch.autograd.grad(
        judged, between, ones, create_graph=True, retain_graph=True
    )
    penalty = ((gradient.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
    (critic(fake).mean() - critic(real).mean() + 10 * penalty).backward()
    optimizer.step()


class Places(Captures):
    def test_what_the_program_put_on_cuda_says_so(self):
        said = []

        def step():
            model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
            said.append(next(model.parameters()).device.type)
            model.cuda()
            x = torch.randn(4, 3).to("cuda")
            y = model(x)
            y.sum().backward()
            for tensor in (
                x,
                y,
                *model.parameters(),
                *model.buffers(),
                y.detach(),
                model[0].weight.grad,
                y.new_ones(2),
            ):
                said.append(
                    (
                        tensor.device,
                        tensor.is_cuda,
                        tensor.is_cpu,
                        tensor.is_meta,
                        tensor.get_device(),
                    )
                )
            said.append(
                torch.zeros(3, device=x.device).device.type
                + torch.zeros_like(y).to(x).device.type
            )
            said.append(y.detach().cpu().device.type + str(y.detach().cpu().is_cuda))
            said.append(
                torch.randn(100, 100).device.type
                + (torch.randn(100, 100) * 2).to(x.device).device.type
            )

        self.captured(step)
        cuda = (torch.device("cuda", 0), True, False, False, 0)
        self.assertEqual(said[0], "cpu")
        self.assertEqual(said[1:-3], [cuda] * (len(said) - 4))
        self.assertEqual(said[-3:], ["cudacuda", "cpuFalse", "cpucuda"])

    def test_what_the_program_left_on_the_host_says_so(self):
        model, said = nn.Linear(100, 100), []

        def step():
            loss = model(torch.randn(100, 100)).square().mean()
            loss.backward()
            said.extend(
                t.device.type
                for t in (
                    loss,
                    *model.parameters(),
                    model.weight.grad,
                    torch.zeros_like(loss),
                )
            )
            said.append(model.to("cpu").weight.device.type)
            torch.optim.AdamW(model.parameters()).step()

        document = self.captured(step)
        self.assertEqual(set(said), {"cpu"})
        self.assertEqual(model.weight.device.type, "cpu")
        self.assertTrue(any("_foreach_" in op["name"] for op in document["ops"]))

    def test_meta_is_meta(self):
        said = []

        def step():
            with torch.device("meta"):
                model = nn.Linear(3, 2)
            said.extend(
                [
                    model.weight.device.type,
                    model.weight.is_meta,
                    (model.weight * 2).device.type,
                ]
            )
            model.to_empty(device="cuda")
            said.extend([model.weight.device.type, model.weight.is_meta])
            said.append(model.weight.detach().to("meta").is_meta)
            said.append(model.weight.is_meta)
            model(torch.randn(4, 3, device="cuda")).sum().backward()

        self.captured(step)
        self.assertEqual(said, ["meta", True, "meta", "cuda", False, True, False])

    def test_autocast_by_the_device_of_a_tensor(self):
        model, said = nn.Linear(3, 2), []

        def step():
            x = torch.randn(4, 3, device="cuda")
            said.append(torch.is_autocast_enabled(x.device.type))
            with torch.autocast(x.device.type, dtype=torch.bfloat16):
                said.append(torch.is_autocast_enabled(x.device.type))
                y = model(x)
                with torch.autocast(device_type=x.device.type, enabled=False):
                    z = model(x)
            said.extend([y.dtype, z.dtype])
            (y.float() + z).sum().backward()

        self.captured(step)
        self.assertEqual(said, [False, True, torch.bfloat16, torch.float32])

    def test_generators_of_cuda(self):
        def step():
            generator = torch.Generator(device="cuda").manual_seed(0)
            self.assertEqual(generator.device.type, "cuda")
            self.assertIsInstance(generator, torch.Generator)
            self.assertIsInstance(torch.default_generator, torch.Generator)
            x = torch.randn(4, 8, device="cuda", generator=generator)
            x = x + torch.empty(4, 8, device="cuda").normal_(generator=generator)
            x = x + torch.rand(4, 8, generator=torch.Generator().manual_seed(1))
            nn.Linear(8, 2)(x).sum().backward()

        self.assertEqual(self.captured(step)["batch_size"], 4)

    def test_copies_of_networks_and_files_of_them(self):
        def step():
            model = nn.Linear(3, 2).cuda()
            average = copy.deepcopy(model)
            self.assertEqual(average.weight.device.type, "cuda")
            file = io.BytesIO()
            torch.save(model.state_dict(), file)
            self.assertIn("tensor(", str(model.weight))
            (
                model(torch.randn(4, 3).cuda())
                - average(torch.randn(4, 3).cuda()).detach()
            ).sum().backward()

        self.captured(step)

    def test_gradients_of_a_batch(self):
        for device in ("cpu", "cuda"):
            with self.subTest(device):
                backward = [
                    op
                    for op in self.captured(lambda: gradient_penalty(device))["ops"]
                    if op["phase"] == "backward"
                ]
                self.assertTrue(backward)

    def test_gradients_of_a_batch_of_the_program(self):
        x, model, says = torch.rand(4, 3), nn.Linear(3, 2), []

        def step(given):
            given.requires_grad = True
            (gradient,) = torch.autograd.grad(
                F.mse_loss(model(given), torch.zeros(4, 2)), given
            )
            says.append(gradient.device.type)
            model((given + gradient.sign()).detach()).sum().backward()
            noise = torch.zeros(4, 3, requires_grad=True)
            model(given.detach() + noise).sum().backward(inputs=[noise])
            says.append(noise.grad.device.type)
            torch.autograd.Variable(torch.ones(4, 3), requires_grad=True)

        documents = [
            self.captured(lambda: step(x)),
            self.captured(lambda: step(torch.rand(4, 3))),
        ]
        self.assertEqual(set(says), {"cpu"})
        self.assertEqual(*([op["name"] for op in d["ops"]] for d in documents))
        self.assertFalse(x.requires_grad)
        self.assertGreater(float(x.sum()), 0)


if __name__ == "__main__":
    unittest.main()
