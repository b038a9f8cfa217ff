# SPDX-License-Identifier: Apache-2.0
"""Networks of Hugging Face's transformers. Sizes are those of the config.json that the authors publish on the Hub."""

import functools

import torch
import torch.nn.functional as F
import transformers as hf

from records import of_mamba
from records.network import Network, image_text, real, whole

_LICENCE = "Apache-2.0"
_WITH_HALF = ("fp32", "autocast", "half")  # large networks that people train with parameters in bf16, too


def _source(kind):
    return f"transformers {hf.__version__} {kind.__name__}"


def _network(name, kind, config, batches, sample, **more):
    return Network(name, lambda: kind(config()), batches, _source(kind), _LICENCE, sample, **more)


def _texts(source, target):
    return lambda size: {"input_ids": whole(size, source), "labels": whole(size, target)}


# ---- Text to text ----

_TARGET = 128  # tokens of a summary or a translation


def _text_to_text(*lengths):
    return {str(length): _texts(length, _TARGET) for length in lengths}


def _t5(name, d_model, d_ff, layers, heads, d_kv=64, aliases=(), published="", **more):
    sizes = dict(d_model=d_model, d_ff=d_ff, num_layers=layers, num_heads=heads, d_kv=d_kv, decoder_start_token_id=0, **more)
    classes = sizes.setdefault("vocab_size", 32128)
    return _network(
        name,
        hf.T5ForConditionalGeneration,
        functools.partial(hf.T5Config, **sizes),
        _text_to_text(512, 128),
        "tokens that are read; 128 are written",
        aliases=aliases,
        published=published,
        classes=classes,
        heads=("lm_head",),
        forms=_WITH_HALF if name.startswith("t5_") else ("fp32", "autocast"),
    )


def _t5s():
    paper = "Raffel et al. 2020"
    rows = [
        ("small", 512, 2048, 6, 8, 64, "60M"),
        ("base", 768, 3072, 12, 12, 64, "220M"),
        ("large", 1024, 4096, 24, 16, 64, "770M"),
        ("3b", 1024, 16384, 24, 32, 128, "3B"),
        ("11b", 1024, 65536, 24, 128, 128, "11B"),
    ]
    for size, *sizes, published in rows:
        yield _t5(f"t5_{size}", *sizes, (f"google-t5/t5-{size}", f"t5-{size}"), f"{published}, {paper}")
    gated = dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)  # which transformers 5 ties all the same
    rows = [
        ("small", 512, 1024, 8, 6, "77M"),
        ("base", 768, 2048, 12, 12, "250M"),
        ("large", 1024, 2816, 24, 16, "780M"),
        ("xl", 2048, 5120, 24, 32, "3B"),
        ("xxl", 4096, 10240, 24, 64, "11B"),
    ]
    for size, *sizes, published in rows:
        aliases = (f"google/flan-t5-{size}", f"flan-t5-{size}", f"google/t5-v1_1-{size}", f"t5-v1_1-{size}")
        yield _t5(f"flan_t5_{size}", *sizes, 64, aliases, f"{published}, Chung et al. 2022", **gated)
    rows = [
        ("small", 512, 1024, 8, 6, "300M"),
        ("base", 768, 2048, 12, 12, "580M"),
        ("large", 1024, 2816, 24, 16, "1.2B"),
        ("xl", 2048, 5120, 24, 32, "3.7B"),
    ]
    for size, *sizes, published in rows:
        aliases = (f"google/mt5-{size}",)
        yield _t5(f"mt5_{size}", *sizes, 64, aliases, f"{published}, Xue et al. 2021", vocab_size=250112, **gated)


def _bart(name, d_model, layers, heads, ffn, vocab, kind, config, aliases, published, lengths, positions=1024, **more):
    both = {
        f"{side}_{what}": value
        for side in ("encoder", "decoder")
        for what, value in (("layers", layers), ("attention_heads", heads), ("ffn_dim", ffn))
    }
    sizes = dict(d_model=d_model, vocab_size=vocab, max_position_embeddings=positions, **both, **more)
    return _network(
        name,
        kind,
        functools.partial(config, **sizes),
        _text_to_text(*lengths),
        "tokens that are read; 128 are written",
        aliases=aliases,
        published=published,
        classes=vocab,
        heads=("lm_head",),
    )


def _barts():
    bart = hf.BartForConditionalGeneration, hf.BartConfig
    paper = "Lewis et al. 2020"
    yield _bart("bart_base", 768, 6, 12, 3072, 50265, *bart, ("facebook/bart-base",), f"140M, {paper}", (512, 1024, 128))
    large = ("facebook/bart-large", "facebook/bart-large-cnn", "facebook/bart-large-xsum")
    yield _bart("bart_large", 1024, 12, 16, 4096, 50265, *bart, large, f"400M, {paper}", (512, 1024, 128))
    many = hf.MBartForConditionalGeneration, hf.MBartConfig
    fifty = ("facebook/mbart-large-50", "facebook/mbart-large-50-many-to-many-mmt", "mbart50")
    yield _bart("mbart_large_50", 1024, 12, 16, 4096, 250054, *many, fifty, "610M, Tang et al. 2020", (128, 512), scale_embedding=True)
    pegasus = hf.PegasusForConditionalGeneration, hf.PegasusConfig
    names = ("google/pegasus-large", "google/pegasus-xsum", "google/pegasus-cnn_dailymail", "pegasus")
    yield _bart("pegasus_large", 1024, 16, 16, 4096, 96103, *pegasus, names, "568M, Zhang et al. 2020", (512, 1024), scale_embedding=True)
    marian = hf.MarianMTModel, hf.MarianConfig
    names = ("helsinki-nlp/opus-mt-en-de", "marian", "opus_mt")
    yield _bart("marian_en_de", 512, 6, 8, 2048, 58101, *marian, names, "74M, Tiedemann and Thottingal 2020", (128, 512), 512,
                pad_token_id=58100, decoder_start_token_id=58100, activation_function="swish", scale_embedding=True)
    m2m = hf.M2M100ForConditionalGeneration, hf.M2M100Config
    nllb = ("facebook/nllb-200-distilled-600m", "nllb_600m", "nllb")
    yield _bart("nllb_200_600m", 1024, 12, 16, 4096, 256206, *m2m, nllb, "600M, NLLB Team 2022", (128, 512), scale_embedding=True)
    yield _bart("m2m100_418m", 1024, 12, 16, 4096, 128112, *m2m, ("facebook/m2m100_418m",), "418M, Fan et al. 2020", (128, 512), scale_embedding=True)


# ---- Speech ----


def _whisper(name, d_model, layers, heads, decoder_layers=None, mels=80, vocab=51865, aliases=(), published=""):
    sizes = dict(
        d_model=d_model,
        encoder_layers=layers,
        decoder_layers=decoder_layers or layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * d_model,
        decoder_ffn_dim=4 * d_model,
        num_mel_bins=mels,
        vocab_size=vocab,
    )
    words = 448  # the most that a Whisper writes

    def batch(size):
        return {"input_features": real(size, mels, 3000), "labels": whole(size, words)}

    return _network(
        name,
        hf.WhisperForConditionalGeneration,
        functools.partial(hf.WhisperConfig, **sizes),
        {f"{mels}x3000": batch},
        "mel bands x frames of 30 s; 448 tokens are written",
        aliases=(f"openai/{name.replace('_', '-')}", *aliases),
        published=f"{published}, Radford et al. 2022",
        classes=vocab,
        heads=("proj_out",),
    )


def _whispers():
    yield _whisper("whisper_tiny", 384, 4, 6, aliases=("openai/whisper-tiny.en",), published="39M")
    yield _whisper("whisper_base", 512, 6, 8, aliases=("openai/whisper-base.en",), published="74M")
    yield _whisper("whisper_small", 768, 12, 12, aliases=("openai/whisper-small.en",), published="244M")
    yield _whisper("whisper_medium", 1024, 24, 16, aliases=("openai/whisper-medium.en",), published="769M")
    yield _whisper("whisper_large_v2", 1280, 32, 20, aliases=("openai/whisper-large",), published="1550M")
    yield _whisper("whisper_large_v3", 1280, 32, 20, mels=128, vocab=51866, published="1550M")
    turbo = ("whisper_turbo", "whisper_large_v3_turbo")
    yield _whisper("whisper_large_v3_turbo", 1280, 32, 20, 4, 128, 51866, turbo[:1], "809M")
    distil = _whisper("distil_whisper_large_v3", 1280, 32, 20, 2, 128, 51866, ("distil-whisper/distil-large-v3",), "756M")
    distil.aliases = distil.aliases[1:]
    yield distil


_RATE = 16000  # of samples of sound, a second
_LETTERS_A_SECOND = 15  # of read English, as LibriSpeech's


def _sound(seconds):
    def batch(size):
        return {"input_values": real(size, seconds * _RATE), "labels": whole(size, seconds * _LETTERS_A_SECOND)}

    return batch


def _ctc_loss(output, batch):
    """That of the network itself, whose lengths are on the host: all sounds and texts are equally long."""
    logs = F.log_softmax(output.logits, dim=-1, dtype=torch.float32).transpose(0, 1)
    samples, letters = batch["labels"].shape
    with torch.backends.cudnn.flags(enabled=False):
        return F.ctc_loss(logs, batch["labels"], (logs.shape[0],) * samples, (letters,) * samples)


def _ctc(name, kind, config, aliases, published, **sizes):
    return _network(
        name,
        kind,
        functools.partial(config, vocab_size=32, layerdrop=0.0, apply_spec_augment=False, **sizes),
        {f"1x{seconds * _RATE}": _sound(seconds) for seconds in (10, 5, 15)},
        "samples of sound at 16 kHz, without SpecAugment and dropped layers; 15 letters a second are written (CTC)",
        aliases=aliases,
        published=published,
        classes=32,
        heads=("lm_head",),
        call=lambda model, batch: model(batch["input_values"]),
        loss=_ctc_loss,
        prime=1009,  # lengths of a batch that are on the host have values
    )


_LARGE = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
_STABLE = dict(_LARGE, feat_extract_norm="layer", conv_bias=True, do_stable_layer_norm=True)


def _wav2vecs():
    kind, config = hf.Wav2Vec2ForCTC, hf.Wav2Vec2Config
    paper = "Baevski et al. 2020"
    base = ("facebook/wav2vec2-base", "facebook/wav2vec2-base-960h", "wav2vec2")
    yield _ctc("wav2vec2_base", kind, config, base, f"95M, {paper}")
    large = ("facebook/wav2vec2-large", "facebook/wav2vec2-large-960h")
    yield _ctc("wav2vec2_large", kind, config, large, f"317M, {paper}", **_LARGE)
    stable = ("facebook/wav2vec2-large-xlsr-53", "facebook/wav2vec2-large-960h-lv60-self", "facebook/wav2vec2-xls-r-300m",
              "xlsr_53", "xls_r_300m")
    yield _ctc("wav2vec2_large_xlsr", kind, config, stable, "300M, Babu et al. 2021", **_STABLE)
    kind, config = hf.HubertForCTC, hf.HubertConfig
    paper = "Hsu et al. 2021"
    yield _ctc("hubert_base", kind, config, ("facebook/hubert-base-ls960", "hubert"), f"95M, {paper}")
    large = ("facebook/hubert-large-ll60k", "facebook/hubert-large-ls960-ft")
    yield _ctc("hubert_large", kind, config, large, f"317M, {paper}", **_STABLE)


def _spectrogram():
    size = (1024, 128)
    yield _network(
        "ast_base",
        hf.ASTForAudioClassification,
        functools.partial(hf.ASTConfig, num_labels=527),
        {"1024x128": lambda batch: {"input_values": real(batch, *size), "labels": whole(batch)}},
        "frames x mel bands of 10 s",
        aliases=("mit/ast-finetuned-audioset-10-10-0.4593", "audio-spectrogram-transformer", "ast"),
        published="87M, Gong et al. 2021",
        classes=527,
    )


# ---- Pictures and texts ----


def _clip_batch(image, words):
    def batch(size):
        return {"input_ids": whole(size, words), "pixel_values": real(size, 3, image, image), "return_loss": True}

    return batch


def _clip(name, patch, image, vision, text, projection, aliases, published, kind=hf.CLIPModel, words=77):
    def config():
        return hf.CLIPConfig(
            text_config=dict(text, projection_dim=projection),
            vision_config=dict(vision, patch_size=patch, image_size=image, projection_dim=projection),
            projection_dim=projection,
        )

    return _network(
        name,
        kind,
        config,
        {image_text(image): _clip_batch(image, words)},
        f"a picture with a text of {words} tokens; contrastive loss over the batch",
        aliases=aliases,
        published=published,
    )


def _tower(hidden, layers, heads, inner=None):
    return dict(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner or 4 * hidden)


def _clips():
    paper = "Radford et al. 2021"
    base, large = _tower(768, 12, 12), _tower(1024, 24, 16)
    words, wide = _tower(512, 12, 8), _tower(768, 12, 12)
    yield _clip("clip_vit_b_32", 32, 224, base, words, 512, ("openai/clip-vit-base-patch32", "clip", "clip-vit-b/32", "vit_base_patch32_clip"), f"151M, {paper}")
    yield _clip("clip_vit_b_16", 16, 224, base, words, 512, ("openai/clip-vit-base-patch16", "clip-vit-b/16"), f"150M, {paper}")
    yield _clip("clip_vit_l_14", 14, 224, large, wide, 768, ("openai/clip-vit-large-patch14", "clip-vit-l/14", "clip_large"), f"428M, {paper}")
    yield _clip("clip_vit_l_14_336", 14, 336, large, wide, 768, ("openai/clip-vit-large-patch14-336", "clip-vit-l/14@336px".replace("@", "-")), f"428M, {paper}")
    open_clip = "Cherti et al. 2023"
    huge = _tower(1280, 32, 16)
    yield _clip("clip_vit_h_14", 14, 224, huge, _tower(1024, 24, 16), 1024, ("laion/clip-vit-h-14-laion2b-s32b-b79k", "open_clip_vit_h_14"), f"986M, {open_clip}")
    giant = _tower(1664, 48, 16, 8192)
    yield _clip("clip_vit_bigg_14", 14, 224, giant, _tower(1280, 32, 20), 1280, ("laion/clip-vit-bigg-14-laion2b-39b-b160k", "open_clip_vit_bigg_14"), f"2.5B, {open_clip}")


def _siglip(name, patch, image, vision, text, aliases, published, words=64):
    def config():
        return hf.SiglipConfig(text_config=dict(text), vision_config=dict(vision, patch_size=patch, image_size=image))

    return _network(
        name,
        hf.SiglipModel,
        config,
        {image_text(image): _clip_batch(image, words)},
        f"a picture with a text of {words} tokens; sigmoid loss over the batch",
        aliases=aliases,
        published=published,
    )


def _siglips():
    paper = "Zhai et al. 2023"
    base, large = _tower(768, 12, 12), _tower(1024, 24, 16)
    so400m = _tower(1152, 27, 16, 4304)
    usual = ("siglip", "siglip_base")
    for image in (224, 256, 384, 512):
        own = (f"google/siglip-base-patch16-{image}", *(usual if image == 224 else ()))
        yield _siglip(f"siglip_base_patch16_{image}", 16, image, base, base, own, f"203M, {paper}")
    for image in (256, 384):
        own = (f"google/siglip-large-patch16-{image}", *(("siglip_large",) if image == 256 else ()))
        yield _siglip(f"siglip_large_patch16_{image}", 16, image, large, large, own, f"652M, {paper}")
    for image in (224, 384):
        own = (f"google/siglip-so400m-patch14-{image}", *(("siglip_so400m",) if image == 384 else ()))
        yield _siglip(f"siglip_so400m_patch14_{image}", 14, image, so400m, so400m, own, f"877M, {paper}", 64 if image == 384 else 16)


# ---- Pictures ----

_ADE = 150  # classes of ADE20K
_ADE_IMAGES = 20210


def _segformer(size, widths, depths, decoder, published):
    def config():
        return hf.SegformerConfig(hidden_sizes=list(widths), depths=list(depths), decoder_hidden_size=decoder, num_labels=_ADE)

    def images(side):
        return lambda batch: {"pixel_values": real(batch, 3, side, side), "labels": whole(batch, side, side)}

    names = (f"nvidia/segformer-{size}-finetuned-ade-512-512", f"nvidia/mit-{size}", f"mit_{size}", *(("segformer",) if size == "b0" else ()))
    return _network(
        f"segformer_{size}",
        hf.SegformerForSemanticSegmentation,
        config,
        {image_text(side): images(side) for side in (512, 640, 1024)},
        "a picture with a class for each pixel",
        aliases=names,
        published=f"{published}, Xie et al. 2021",
        classes=_ADE,
        samples=_ADE_IMAGES,
    )


def _segformers():
    wide = (64, 128, 320, 512)
    yield _segformer("b0", (32, 64, 160, 256), (2, 2, 2, 2), 256, "3.8M")
    yield _segformer("b1", wide, (2, 2, 2, 2), 256, "13.7M")
    yield _segformer("b2", wide, (3, 4, 6, 3), 768, "27.5M")
    yield _segformer("b3", wide, (3, 4, 18, 3), 768, "47.3M")
    yield _segformer("b4", wide, (3, 8, 27, 3), 768, "64.1M")
    yield _segformer("b5", wide, (3, 6, 40, 3), 768, "84.7M")


# ---- Detection ----

_COCO_CLASSES, _COCO_IMAGES = 91, 118287
_OBJECTS = 8  # in a picture: COCO 2017 has 7.3


def _objects(sides):
    rows, columns = sides

    def batch(size):
        labels = [{"class_labels": whole(_OBJECTS), "boxes": real(_OBJECTS, 4)} for _ in range(size)]
        return {"pixel_values": real(size, 3, rows, columns), "labels": labels}

    return batch


def _detector(name, kind, config, aliases, published, sides=((800, 1216),), **sizes):
    network = _network(
        name,
        kind,
        functools.partial(config, num_labels=_COCO_CLASSES, **sizes),
        {f"3x{side[0]}x{side[1]}": _objects(side) for side in sides},
        f"a picture with {_OBJECTS} objects",
        aliases=aliases,
        published=published,
        classes=_COCO_CLASSES,
        samples=_COCO_IMAGES,
    )
    network.batch_sizes = (1, 2, 4, 8)  # the loss goes through the pictures one by one
    return network


def _resnet(depth):
    return hf.TimmBackboneConfig(backbone=f"resnet{depth}", out_indices=[1, 2, 3, 4], num_channels=3)


def _detectors():
    detr = hf.DetrForObjectDetection, hf.DetrConfig
    paper = "Carion et al. 2020"
    yield _detector("detr_resnet50", *detr, ("facebook/detr-resnet-50", "detr", "detr_r50"), f"41M, {paper}")
    yield _detector("detr_resnet101", *detr, ("facebook/detr-resnet-101", "detr_r101"), f"60M, {paper}", backbone_config=_resnet(101))
    conditional = hf.ConditionalDetrForObjectDetection, hf.ConditionalDetrConfig
    yield _detector("conditional_detr_resnet50", *conditional, ("microsoft/conditional-detr-resnet-50", "conditional_detr"), "44M, Meng et al. 2021")
    deformable = hf.DeformableDetrForObjectDetection, hf.DeformableDetrConfig
    yield _detector("deformable_detr_resnet50", *deformable, ("sensetime/deformable-detr", "deformable_detr"), "40M, Zhu et al. 2020")
    yolos = hf.YolosForObjectDetection, hf.YolosConfig
    yield _detector("yolos_base", *yolos, ("hustvl/yolos-base", "yolos"), "127M, Fang et al. 2021", ((800, 1344),), image_size=[800, 1344])


# ---- Sequences without attention ----


def _mamba(name, hidden, layers, published, kind=hf.MambaForCausalLM, config=hf.MambaConfig):
    def texts(length):
        def batch(size):
            words = whole(size, length)
            return {"input_ids": words, "labels": words}

        return batch

    size = name.rpartition("_")[2]
    return _network(
        name,
        kind,
        functools.partial(config, hidden_size=hidden, num_hidden_layers=layers, use_cache=False),
        {str(length): texts(length) for length in (2048, 1024, 512)},
        "tokens; scan and convolution by mamba_ssm's and causal_conv1d's kernels",
        aliases=(f"state-spaces/mamba-{size}", f"state-spaces/mamba-{size}-hf", *(("mamba",) if size == "130m" else ())),
        published=f"{published}, Gu and Dao 2023",
        classes=50280,
        heads=("lm_head",),
        forms=_WITH_HALF,
    )


def _mambas():
    of_mamba.use_kernels()
    for size, hidden, layers, published in (("130m", 768, 24, "130M"), ("370m", 1024, 48, "370M"), ("790m", 1536, 48, "790M"),
                                            ("1.4b", 2048, 48, "1.4B"), ("2.8b", 2560, 64, "2.8B")):
        yield _mamba(f"mamba_{size}", hidden, layers, published)


# ---- Texts ----


def _words(length, masked=True):
    def batch(size):
        words = whole(size, length)
        return {"input_ids": words, "labels": words}

    return batch


def _encoder(name, kind, config, aliases, published, lengths=(512, 128, 256), sample="tokens; all are predicted (masked language model)",
             classes=0, forms=("fp32", "autocast"), **sizes):
    made = functools.partial(config, **sizes)
    return _network(
        name,
        kind,
        made,
        {str(length): _words(length) for length in lengths},
        sample,
        aliases=aliases,
        published=published,
        classes=classes or made().vocab_size,
        heads=("lm_head", "cls.predictions.decoder", "lm_predictions.lm_head.dense", "decoder", "generator_lm_head", "predictions.decoder"),
        forms=forms,
    )


def _encoders():
    deberta = dict(vocab_size=128100, relative_attention=True, max_relative_positions=-1, position_buckets=256, norm_rel_ebd="layer_norm",
                   share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, type_vocab_size=0)
    kind = hf.DebertaV2ForMaskedLM, hf.DebertaV2Config
    paper = "He et al. 2021"
    for size, hidden, layers, heads, published in (("xsmall", 384, 12, 6, "22M + 48M of words"), ("small", 768, 6, 12, "44M + 98M of words"),
                                                   ("base", 768, 12, 12, "86M + 98M of words"), ("large", 1024, 24, 16, "304M + 131M of words")):
        yield _encoder(f"deberta_v3_{size}", *kind, (f"microsoft/deberta-v3-{size}", *(("deberta",) if size == "base" else ())),
                       f"{published}, {paper}", hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden, **deberta)
    albert = hf.AlbertForMaskedLM, hf.AlbertConfig
    paper = "Lan et al. 2020"
    yield _encoder("albert_base", *albert, ("albert/albert-base-v2", "albert-base-v2", "albert"), f"12M, {paper}", hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    yield _encoder("albert_large", *albert, ("albert/albert-large-v2", "albert-large-v2"), f"18M, {paper}", hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    yield _encoder("albert_xxlarge", *albert, ("albert/albert-xxlarge-v2", "albert-xxlarge-v2"), f"235M, {paper}", hidden_size=4096, num_hidden_layers=12, num_attention_heads=64, intermediate_size=16384)
    electra = hf.ElectraForMaskedLM, hf.ElectraConfig
    paper = "Clark et al. 2020"
    yield _encoder("electra_small", *electra, ("google/electra-small-discriminator", "google/electra-small-generator"), f"14M, {paper}", embedding_size=128, hidden_size=256, num_attention_heads=4, intermediate_size=1024)
    yield _encoder("electra_base", *electra, ("google/electra-base-discriminator", "electra"), f"110M, {paper}", embedding_size=768, hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    yield _encoder("electra_large", *electra, ("google/electra-large-discriminator",), f"335M, {paper}", embedding_size=1024, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    yield _encoder("mpnet_base", hf.MPNetForMaskedLM, hf.MPNetConfig, ("microsoft/mpnet-base", "sentence-transformers/all-mpnet-base-v2", "all-mpnet-base-v2"), "110M, Song et al. 2020", vocab_size=30527, max_position_embeddings=514)
    bert = hf.BertForMaskedLM, hf.BertConfig
    yield _encoder("minilm_l6", *bert, ("sentence-transformers/all-minilm-l6-v2", "all-minilm-l6-v2", "nreimers/minilm-l6-h384-uncased"), "22.7M, Wang et al. 2020", hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    yield _encoder("minilm_l12", *bert, ("sentence-transformers/all-minilm-l12-v2", "microsoft/minilm-l12-h384-uncased", "intfloat/e5-small-v2", "baai/bge-small-en-v1.5"), "33M, Wang et al. 2020", hidden_size=384, num_hidden_layers=12, num_attention_heads=12, intermediate_size=1536)
    for size, hidden, layers in (("tiny", 128, 2), ("mini", 256, 4), ("small", 512, 4), ("medium", 512, 8)):
        yield _encoder(f"bert_{size}", *bert, (f"google/bert_uncased_l-{layers}_h-{hidden}_a-{hidden // 64}", f"prajjwal1/bert-{size}"), "Turc et al. 2019",
                       hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64, intermediate_size=4 * hidden)
    modern = hf.ModernBertForMaskedLM, hf.ModernBertConfig
    paper = "Warner et al. 2024"
    yield _encoder("modernbert_base", *modern, ("answerdotai/modernbert-base", "modernbert"), f"149M, {paper}", (512, 1024, 8192), reference_compile=False)
    yield _encoder("modernbert_large", *modern, ("answerdotai/modernbert-large",), f"395M, {paper}", (512, 1024, 8192), hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, intermediate_size=2624, reference_compile=False)
    yield _encoder("longformer_base_4096", hf.LongformerForMaskedLM, hf.LongformerConfig, ("allenai/longformer-base-4096", "longformer"), "149M, Beltagy et al. 2020", (4096, 1024), vocab_size=50265, max_position_embeddings=4098, attention_window=[512] * 12, type_vocab_size=1)
    xlnet = hf.XLNetLMHeadModel, hf.XLNetConfig
    yield _encoder("xlnet_base", *xlnet, ("xlnet/xlnet-base-cased", "xlnet"), "117M, Yang et al. 2019", (512, 128), d_model=768, n_layer=12, n_head=12, d_inner=3072)
    yield _encoder("xlnet_large", *xlnet, ("xlnet/xlnet-large-cased",), "361M, Yang et al. 2019", (512, 128))
    esm = hf.EsmForMaskedLM, hf.EsmConfig
    for size, layers, hidden, heads in (("8m", 6, 320, 20), ("35m", 12, 480, 20), ("150m", 30, 640, 20), ("650m", 33, 1280, 20), ("3b", 36, 2560, 40)):
        yield _encoder(f"esm2_{size}", *esm, (f"facebook/esm2_t{layers}_{size}_ur50d", *(("esm2",) if size == "650m" else ())), f"{size.upper()}, Lin et al. 2022", (512, 1024),
                       "residues of a protein; all are predicted (masked language model)", vocab_size=33, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                       intermediate_size=4 * hidden, position_embedding_type="rotary", pad_token_id=1, mask_token_id=32, token_dropout=False, emb_layer_norm_before=False, max_position_embeddings=1026)


def _decoders():
    next_word = "tokens; the next one is predicted"
    neo = hf.GPTNeoForCausalLM, hf.GPTNeoConfig
    for size, hidden, layers, heads in (("125m", 768, 12, 12), ("1.3b", 2048, 24, 16), ("2.7b", 2560, 32, 20)):
        yield _encoder(f"gpt_neo_{size}", *neo, (f"eleutherai/gpt-neo-{size}",), f"{size.upper()}, Black et al. 2021", (2048, 1024, 512), next_word, forms=_WITH_HALF,
                       hidden_size=hidden, num_layers=layers, num_heads=heads, attention_types=[[["global", "local"], layers // 2]], use_cache=False)
    yield _encoder("gptj_6b", hf.GPTJForCausalLM, hf.GPTJConfig, ("eleutherai/gpt-j-6b", "gpt_j", "gptj"), "6B, Wang and Komatsuzaki 2021", (2048, 1024, 512), next_word, forms=_WITH_HALF, use_cache=False)
    bloom = hf.BloomForCausalLM, hf.BloomConfig
    for size, hidden, layers, heads in (("560m", 1024, 24, 16), ("1.1b", 1536, 24, 16), ("1.7b", 2048, 24, 16), ("3b", 2560, 30, 32), ("7.1b", 4096, 30, 32)):
        hub = {"1.1b": "1b1", "1.7b": "1b7", "7.1b": "7b1"}.get(size, size)
        yield _encoder(f"bloom_{size}", *bloom, (f"bigscience/bloom-{hub}", f"bigscience/bloomz-{hub}"), f"{size.upper()}, BigScience 2022", (2048, 1024, 512), next_word, forms=_WITH_HALF,
                       vocab_size=250880, hidden_size=hidden, n_layer=layers, n_head=heads, use_cache=False)


# ---- Pictures, films ----


def _vision(name, kind, config, aliases, published, side, classes, extra=(), **sizes):
    def batch(size):
        return {"pixel_values": real(size, *extra, 3, side, side), "labels": whole(size)}

    return _network(name, kind, functools.partial(config, num_labels=classes, **sizes), {"x".join(map(str, (*extra, 3, side, side))): batch},
                    "a film: frames, channels, rows, columns" if extra else "a picture", aliases=aliases, published=published, classes=classes,
                    heads=("classifier",))


def _visions():
    film = hf.VideoMAEForVideoClassification, hf.VideoMAEConfig
    yield _vision("videomae_base", *film, ("mcg-nju/videomae-base", "mcg-nju/videomae-base-finetuned-kinetics", "videomae"), "87M, Tong et al. 2022", 224, 400, (16,))
    yield _vision("videomae_large", *film, ("mcg-nju/videomae-large",), "305M, Tong et al. 2022", 224, 400, (16,), hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    yield _vision("timesformer_base", hf.TimesformerForVideoClassification, hf.TimesformerConfig, ("facebook/timesformer-base-finetuned-k400", "timesformer"), "121M, Bertasius et al. 2021", 224, 400, (8,))


def networks():
    for family in (_t5s, _barts, _whispers, _wav2vecs, _spectrogram, _clips, _siglips, _segformers, _detectors, _mambas, _encoders,
                   _decoders, _visions):
        yield from family()
