# After bitsandbytes' "LLM.int8()": an 8-bit base with LoRA.
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from loops_common import saved_llama

model = AutoModelForCausalLM.from_pretrained(
    saved_llama(), quantization_config=BitsAndBytesConfig(load_in_8bit=True), device_map={"": 0}
)
model = prepare_model_for_kbit_training(model)
model = get_peft_model(model, LoraConfig(r=8, task_type="CAUSAL_LM"))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
for step in range(2):
    words = torch.randint(0, 1000, (2, 128), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(input_ids=words, labels=words).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
