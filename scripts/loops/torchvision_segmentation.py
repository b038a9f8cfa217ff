# After torchvision's references/segmentation/train.py: an auxiliary head.
import torch
import torchvision

model = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=21, aux_loss=True).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
for step in range(2):
    pictures, labels = torch.rand(2, 3, 256, 256).cuda(), torch.randint(0, 21, (2, 256, 256)).cuda()
    output = model(pictures)
    losses = {name: torch.nn.functional.cross_entropy(x, labels, ignore_index=255) for name, x in output.items()}
    loss = losses["out"] + 0.5 * losses["aux"]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
