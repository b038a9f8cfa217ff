# After transformers' "T5" page: training with Adafactor. (also for transformers 4)
import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.optimization import Adafactor

model = T5ForConditionalGeneration(
    T5Config(decoder_start_token_id=0, d_model=128, d_ff=256, d_kv=32, num_layers=2, num_heads=4, vocab_size=1000)
).to("cuda")
optimizer = Adafactor(model.parameters(), scale_parameter=False, relative_step=False, warmup_init=False, lr=1e-3)
for step in range(2):
    words, labels = torch.randint(0, 1000, (4, 64)).to("cuda"), torch.randint(0, 1000, (4, 32)).to("cuda")
    model(input_ids=words, labels=labels).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
