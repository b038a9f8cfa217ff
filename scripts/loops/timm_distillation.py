# After PyTorch's "Knowledge distillation" tutorial: a teacher in inference mode, its batch in the network's step.
import timm
import torch
import torch.nn.functional as F

teacher = timm.create_model("resnet34", pretrained=False).cuda().eval()
student = timm.create_model("resnet18", pretrained=False).cuda()
optimizer = torch.optim.SGD(student.parameters(), 0.1, momentum=0.9)
for step in range(1):
    pictures, labels = torch.rand(8, 3, 160, 160).cuda(), torch.randint(0, 1000, (8,)).cuda()
    with torch.inference_mode():
        wanted = F.softmax(teacher(pictures) / 2, dim=1)
    logits = student(pictures)
    loss = F.cross_entropy(logits, labels) + F.kl_div(F.log_softmax(logits / 2, dim=1), wanted.clone(), reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
