// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/torch/net_trainer.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "../refusal.h"
#include "../temporary_folder.h"
#include "small_training.h"
#include "torch/data/image_folder.h"
#include "torch/data/picture_file.h"
#include "torch/data/resample.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;
using perfpred::testing::run;
using perfpred::testing::said;
using perfpred::testing::small;
using perfpred::testing::TemporaryFolder;

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

/// 16 x 16 pixels: red grows to the right, green downwards, blue is even.
std::string small_jpeg() {
  constexpr std::string_view hex =
      "ffd8ffe000104a46494600010100000100010000ffdb0043001b12141714111b1716171e1c1b2028422b28252528513a3d30"
      "42605565645f555d5b6a7899816a7190735b5d85b586909ea3abadab6780bcc9baa6c799a8aba4ffdb0043011c1e1e282328"
      "4e2b2b4ea46e5d6ea4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4"
      "a4a4a4a4a4a4a4a4ffc00011080010001003011100021101031101ffc4001f00000105010101010101000000000000000001"
      "02030405060708090a0bffc400b5100002010303020403050504040000017d01020300041105122131410613516107227114"
      "328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a53545556"
      "5758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5"
      "b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc4001f010003"
      "0101010101010101010000000000000102030405060708090a0bffc400b51100020102040403040705040400010277000102"
      "031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a35"
      "363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a92939495"
      "969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9ea"
      "f2f3f4f5f6f7f8f9faffda000c03010002110311003f00cc8adbdabaa53269542dc56ded58ca67a74aa16e2b6f6ac6533e76"
      "9542e456ded58ca67a54aa1fffd9";
  return from_hex(hex);
}

/// 8 x 8 pixels in CMYK, stored 200, 100, 50, 128: red 100, green 50, blue 25.
std::string cmyk_jpeg() {
  return from_hex(
      "ffd8ffee000e41646f626500640000000002ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f13201513121213271c1e17202e"
      "2931302e292d2c333a4a3e333646372c2d405741464c4e525352323e5a615a50604a51524fffdb0043010e0e0e1311132615"
      "15264f352d354f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f"
      "4f4f4f4f4f4fffc00014080008000804011100021101031101041100ffc4001f000001050101010101010000000000000000"
      "0102030405060708090a0bffc400b5100002010303020403050504040000017d010203000411051221314106135161072271"
      "14328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a535455"
      "565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4"
      "b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc4001f0100"
      "030101010101010101010000000000000102030405060708090a0bffc400b511000201020404030407050404000102770001"
      "02031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a"
      "35363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a929394"
      "95969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9"
      "eaf2f3f4f5f6f7f8f9faffda000e040100021103110400003f00757b078015ffd9");
}

/// 2 x 2 pixels: red, green; blue, and 10, 20, 30. This and the pictures below were written by Pillow 12.
std::string small_png() {
  return from_hex(
      "89504e470d0a1a0a0000000d4948445200000002000000020802000000fdd49a730000001649444154789c63f8cfc0c0f09f818181e1"
      "3f97881c001a58033a82e0ab530000000049454e44ae426082");
}

/// The small picture without the last bytes of its pixels, but with header and end.
std::string jpeg_damaged_inside() {
  std::string bytes = small_jpeg();
  bytes.erase(bytes.size() - 2 - 20, 20);
  return bytes;
}

/// One row of grey pixels.
Picture row_of(const std::vector<int>& values) {
  Picture picture;
  picture.width = static_cast<int>(values.size());
  picture.height = 1;
  for (const int value : values) picture.rgb.insert(picture.rgb.end(), 3, static_cast<std::uint8_t>(value));
  return picture;
}

/// The red plane of a row scaled to `width` pixels.
std::vector<float> scaled(const Picture& row, std::int64_t width, bool mirrored = false) {
  std::vector<float> out(static_cast<std::size_t>(3 * width));
  resample(row, {0, 0, static_cast<float>(row.width), 1}, 1, width, mirrored, out);
  out.resize(static_cast<std::size_t>(width));
  return out;
}

TEST(Resample, TakesTriangularMeansWhenShrinking) {
  // A triangle of half width 2 at distances 0.5 and 1.5: 3/4 and 1/4, divided by their sum.
  const std::vector<float> half = scaled(row_of({0, 0, 0, 80, 160, 0, 0, 0}), 4);
  EXPECT_NEAR(half[0], 0, 1e-4);
  EXPECT_NEAR(half[1], 80 * 0.375 + 160 * 0.125, 1e-4);
  EXPECT_NEAR(half[2], 80 * 0.125 + 160 * 0.375, 1e-4);
  // At the border the weights of pixels that are not there are left out: 3/4, 3/4, 1/4 over 7/4.
  EXPECT_NEAR(scaled(row_of({70, 0, 140, 0, 0, 0, 0, 0}), 4)[0], 70 * 3 / 7.0 + 140 / 7.0, 1e-4);
  // Without antialiasing, stripes of one pixel would become all black, all white, or a pattern.
  std::vector<int> stripes(64);
  for (std::size_t i = 0; i < stripes.size(); i += 2) stripes[i] = 200;
  const std::vector<float> quarter = scaled(row_of(stripes), 16);
  for (std::size_t i = 1; i + 1 < quarter.size(); ++i) EXPECT_NEAR(quarter[i], 100, 1e-3) << i;
}

TEST(Resample, InterpolatesWhenEnlarging) {
  const std::vector<float> twice = scaled(row_of({0, 100}), 4);
  const std::vector<float> expected = {0, 25, 75, 100};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(twice[i], expected[i], 1e-4);
}

TEST(Resample, KeepsAndMirrorsPixels) {
  EXPECT_EQ(scaled(row_of({1, 2, 3}), 3), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(scaled(row_of({1, 2, 3}), 3, true), (std::vector<float>{3, 2, 1}));
}

TEST(Resample, WindowsMayBeginInsidePixelsAndAxesAreApart) {
  // value = 8 x + 16 y at pixel centres; a weighted mean of a plane with symmetric weights is its value at the centre.
  Picture picture;
  picture.width = 12;
  picture.height = 8;
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      for (int c = 0; c < 3; ++c) picture.rgb.push_back(static_cast<std::uint8_t>(8 * x + 16 * y));
    }
  }
  std::vector<float> out(3 * 2 * 2);
  resample(picture, {3.25F, 2.5F, 5, 3}, 2, 2, false, out);
  const auto at = [](float x, float y) { return 8 * (x - 0.5F) + 16 * (y - 0.5F); };
  EXPECT_NEAR(out[0], at(3.25F + 1.25F, 2.5F + 0.75F), 0.5);
  EXPECT_NEAR(out[3], at(3.25F + 3.75F, 2.5F + 2.25F), 0.5);
}

/// The CRC-32 of a chunk (PNG, annex D), highest byte first.
std::string png_checksum(std::string_view chunk) {
  std::uint32_t crc = 0xffffffffU;
  for (const char c : chunk) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1U ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
  }
  crc = ~crc;
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(crc >> static_cast<unsigned>(shift) & 0xffU);
  return bytes;
}

std::vector<int> decoded(const TemporaryFolder& folder, const std::string& bytes) {
  const Picture picture = PictureFile(folder.write("picture", bytes)).decode();
  return {picture.rgb.begin(), picture.rgb.end()};
}

TEST(PictureFile, PngBecomesRgb) {
  if (!reads(PictureFormat::png)) GTEST_SKIP() << "built without libpng";
  const TemporaryFolder folder;
  const std::vector<int> rgb = {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30};
  EXPECT_EQ(decoded(folder, small_png()), rgb);
  const std::string of_palette = from_hex(
      "89504e470d0a1a0a0000000d49484452000000020000000202030000000fd8e5b70000000c504c544500ff000a141eff00000000ffbc2a"
      "b2a10000000c49444154789c636860b8000002540151612651e10000000049454e44ae426082");
  EXPECT_EQ(decoded(folder, of_palette), rgb);
  // 200, 100, 50 all transparent; 1, 2, 3 half: what is transparent keeps its colour.
  const std::string transparent = from_hex(
      "89504e470d0a1a0a0000000d49484452000000020000000108060000"
      "00f4227f8a0000001149444154789c63389162c4c0c8c4dc00000a"
      "c101e5e64269010000000049454e44ae426082");
  EXPECT_EQ(decoded(folder, transparent), (std::vector<int>{200, 100, 50, 1, 2, 3}));
  const std::string grey = from_hex(
      "89504e470d0a1a0a0000000d4948445200000002000000010800000000d14920560000000b49444154789c63e0fc0500010f01044be469"
      "8d0000000049454e44ae426082");
  EXPECT_EQ(decoded(folder, grey), (std::vector<int>{9, 9, 9, 250, 250, 250}));
}

TEST(PictureFile, WebpBecomesRgb) {
  if (!reads(PictureFormat::webp)) GTEST_SKIP() << "built without libwebp";
  const TemporaryFolder folder;
  const std::string lossless = from_hex(
      "5249464636000000574542505650384c290000002f03c000007f20164cfc6d67d099c2400cc2fc67b4034100c482162d5ab468d1a24547"
      "44ff0394d31d00");
  std::vector<int> expected;
  for (int i = 0; i < 16; ++i) expected.insert(expected.end(), {16 * i, 255 - 16 * i, 8 * i});
  EXPECT_EQ(decoded(folder, lossless), expected);
  const std::string lossy = from_hex(
      "524946463a00000057454250565038202e000000f001009d012a1000100000c01225900274ba01f80004830000fefc6a9fff98257e41bc"
      "85ffe7a67c12760fad0000");
  const std::vector<int> even = decoded(folder, lossy);
  ASSERT_EQ(even.size(), 16U * 16 * 3);
  for (std::size_t i = 0; i < even.size(); i += 3) {
    EXPECT_NEAR(even[i], 100, 4);
    EXPECT_NEAR(even[i + 1], 50, 4);
    EXPECT_NEAR(even[i + 2], 25, 4);
  }
}

TEST(PictureFile, DamageAndBombsAreNamed) {
  if (!reads(PictureFormat::png)) GTEST_SKIP() << "built without libpng";
  const TemporaryFolder folder;
  const auto says = [&](const std::string& bytes) {
    return perfpred::testing::refusal<Error>([&] { static_cast<void>(decoded(folder, bytes)); });
  };
  EXPECT_NE(says("GIF89a").find("picture: is not a JPEG, PNG or WebP picture"), std::string::npos);
  EXPECT_NE(says(small_png().substr(0, 50)).find("picture: "), std::string::npos);
  EXPECT_NE(says(small_png().substr(0, 20)).find("picture: "), std::string::npos);
  std::string large = small_png();  // 100,000 pixels wide and high; the header's checksum is made right
  large.replace(16, 8, std::string("\0\1\x86\xa0\0\1\x86\xa0", 8));
  large.replace(29, 4, png_checksum(large.substr(12, 17)));
  EXPECT_NE(says(large).find("has 100000 x 100000 pixels; at most 178956970 are read"), std::string::npos)
      << says(large);
  EXPECT_TRUE(looks_whole(folder.write("whole.png", small_png())));
  EXPECT_FALSE(looks_whole(folder.write("cut.png", small_png().substr(0, 70))));
  EXPECT_FALSE(looks_whole(folder.write("other.png", "GIF89a")));
}

class Pictures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!reads(PictureFormat::jpeg)) GTEST_SKIP() << "built without libjpeg-turbo";
  }

  Pictures() {
    for (const char* part : {"train", "val"}) {
      for (const char* kind : {"cat", "dog"}) {
        const std::string place = folder_.path() + "/" + part + "/" + kind;
        fs::create_directories(place);
        for (const char* name : {"a.jpg", "b.JPEG", "c.jpeg"}) {
          folder_.write(std::string(part) + "/" + kind + "/" + name, small_jpeg());
        }
      }
    }
    options_ = small();
    options_.data = "imagefolder:" + folder_.path();
    options_.train_images.reset();
    options_.epochs = 1;
    options_.batch_size = 4;
  }

  /// The message of the refusal; empty if there was none.
  std::string refusal() {
    try {
      static_cast<void>(run(options_));
      return {};
    } catch (const InputError& error) {
      return error.what();
    }
  }

  TemporaryFolder folder_;
  TrainNetOptions options_;
};

TEST_F(Pictures, AreTrainedOn) { EXPECT_EQ(run(options_).epochs.size(), 1U); }

TEST_F(Pictures, OfAllFormatsAreTrainedOn) {
  if (!reads(PictureFormat::png)) GTEST_SKIP() << "built without libpng";
  for (const char* name : {"d.png", "e.PNG", "f.png", "JPEG by its name.jpg"}) {
    folder_.write(std::string("train/cat/") + name, small_png());
  }
  const auto folder = read_image_folder(folder_.path(), {3, 4, 4}, {});
  EXPECT_EQ(folder->data.train->size(), 10);
  EXPECT_EQ(folder->ignored, "");
  EXPECT_EQ(run(options_).epochs.size(), 1U);
  std::vector<float> image(3 * 4 * 4);
  EXPECT_EQ(refusal(), "");
  EXPECT_THROW(folder->data.train->read(10, 0, Layout::nchw, image), InputError);
  EXPECT_THROW(static_cast<void>(folder->data.train->label(-1)), InputError);
  image.pop_back();
  EXPECT_THROW(folder->data.train->read(0, 0, Layout::nchw, image), InputError);
}

TEST_F(Pictures, OfImagenetteLieAmongItsOtherFiles) {
  folder_.write("noisy_imagenette.csv", "path,noisy_labels_0\n");
  fs::create_directory(folder_.file("train/.ipynb_checkpoints"));
  EXPECT_EQ(refusal(), "");
}

TEST_F(Pictures, AllThatAreHeldOutAreScored) {
  folder_.write("val/dog/c.jpeg", cmyk_jpeg());
  const auto read = [&] { return read_image_folder(folder_.path(), {3, 16, 16}, {})->data; };
  EXPECT_EQ(read().validation->size(), 6);
  EXPECT_EQ(read().test->size(), 6);
  const TrainNetResult result = run(options_);
  EXPECT_EQ(result.test_loss, result.epochs.at(0).val_loss);

  folder_.write("test", "");
  EXPECT_EQ(read().test->size(), 6);
  fs::remove(folder_.file("test"));
  fs::create_directory(folder_.file("test"));
  folder_.write("test/unlabelled.jpg", small_jpeg());
  EXPECT_EQ(read().test->size(), 6);
  for (const char* kind : {"cat", "dog"}) {
    fs::create_directory(folder_.file("test") + "/" + kind);
    folder_.write(std::string("test/") + kind + "/a.jpg", small_jpeg());
  }
  // Unlike the validation part, of one class more than of the other: another loss, whatever the network answers.
  for (const char* name : {"test/dog/b.jpg", "test/dog/c.jpg"}) folder_.write(name, small_jpeg());
  EXPECT_EQ(read().validation->size(), 6);
  EXPECT_EQ(read().test->size(), 4);
  EXPECT_NE(run(options_).test_loss, result.test_loss);
  fs::create_directory(folder_.file("test/bird"));
  EXPECT_NE(refusal().find("/test: has other classes than "), std::string::npos);
}

TEST_F(Pictures, ACorruptOneIsNamedOrSkipped) {
  folder_.write("train/cat/broken.jpg", small_jpeg().substr(0, 100));
  EXPECT_NE(refusal().find("broken.jpg"), std::string::npos);
  folder_.write("val/cat/empty.jpg", "");
  options_.skip_corrupt = true;
  std::vector<std::string> lines;
  EXPECT_EQ(run(options_, &lines).skipped_images, 2);
  EXPECT_TRUE(said(lines, "corrupt pictures skipped: 2 ("));
  EXPECT_TRUE(said(lines, "/val/cat/empty.jpg: is empty"));
  EXPECT_TRUE(said(lines, "/train/cat/broken.jpg: "));
}

TEST_F(Pictures, CorruptOnesAreNamedAndAClassKeepsOne) {
  for (const char* name : {"a.jpg", "b.JPEG", "c.jpeg"}) folder_.write(std::string("train/cat/") + name, "");
  for (const char* name : {"1.jpg", "2.jpg", "3.jpg"}) folder_.write(std::string("train/dog/") + name, "");
  const std::string all = refusal();
  EXPECT_NE(all.find("/train/cat/c.jpeg: is empty"), std::string::npos) << all;
  EXPECT_NE(all.find("/train/dog/2.jpg: is empty; and 1 more"), std::string::npos) << all;
  options_.skip_corrupt = true;
  EXPECT_NE(refusal().find("/train/cat: no picture decodes"), std::string::npos) << refusal();
}

TEST_F(Pictures, CmykBecomesRgb) {
  folder_.write("val/cat/a.jpg", cmyk_jpeg());
  std::vector<float> pixel(3);
  read_image_folder(folder_.path(), {3, 1, 1}, {})->data.validation->read(0, 0, Layout::nchw, pixel);
  EXPECT_NEAR(255 * (pixel[0] * 0.229F + 0.485F), 100, 3);
  EXPECT_NEAR(255 * (pixel[1] * 0.224F + 0.456F), 50, 3);
  EXPECT_NEAR(255 * (pixel[2] * 0.225F + 0.406F), 25, 3);
}

TEST_F(Pictures, HaveBothLayouts) {
  const auto folder = read_image_folder(folder_.path(), {3, 6, 5}, {});
  std::vector<float> planes(3 * 6 * 5), pixels(planes.size());
  folder->data.train->read(0, 3, Layout::nchw, planes);
  folder->data.train->read(0, 3, Layout::nhwc, pixels);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t p = 0; p < 30; ++p) EXPECT_EQ(pixels[p * 3 + c], planes[c * 30 + p]) << c << ' ' << p;
  }
}

TEST_F(Pictures, FoldersThatAreEmptyOrDifferAreRefused) {
  fs::create_directory(folder_.path() + "/train/empty");
  EXPECT_NE(refusal().find("other classes"), std::string::npos);
  fs::create_directory(folder_.path() + "/val/empty");
  EXPECT_NE(refusal().find("has no picture (JPEG, PNG or WebP)"), std::string::npos);
  options_.data = "imagefolder:" + folder_.path() + "/missing";
  EXPECT_NE(refusal().find("is not a folder"), std::string::npos);
}

TEST_F(Pictures, ThatAreMuchLargerAreDecodedSmaller) {
  // The middle 14 x 14 pixels, first as they are, then scaled to 3 x 3: decoded to half the size.
  const auto pixels = [&](std::int64_t side) {
    std::vector<float> out(static_cast<std::size_t>(3 * side * side));
    read_image_folder(folder_.path(), {3, side, side}, {})->data.validation->read(0, 0, Layout::nchw, out);
    for (float& value : out) value = 255 * (value * 0.229F + 0.485F);
    return out;
  };
  const std::vector<float> whole = pixels(14);
  const std::vector<float> small = pixels(3);
  const auto weight = [](int i) { return std::max(0.0F, 1 - std::abs(static_cast<float>(i) + 0.5F - 7) * 3 / 14); };
  float sum = 0;
  float weights = 0;
  for (int y = 0; y < 14; ++y) {
    for (int x = 0; x < 14; ++x) {
      sum += weight(x) * weight(y) * whole[static_cast<std::size_t>(14 * y + x)];
      weights += weight(x) * weight(y);
    }
  }
  EXPECT_NEAR(small[4], sum / weights, 2);
}

TEST_F(Pictures, DamageInsideIsFoundBeforeWithVerifyElseWhenItIsNeeded) {
  folder_.write("train/cat/b.JPEG", jpeg_damaged_inside());
  ImageFolderOptions options;
  const auto folder = read_image_folder(folder_.path(), {3, 16, 16}, options);
  std::vector<float> out(3 * 16 * 16);
  folder->data.train->read(0, 0, Layout::nchw, out);
  EXPECT_THROW(folder->data.train->read(1, 0, Layout::nchw, out), Error);
  options.verify = true;
  EXPECT_THROW(static_cast<void>(read_image_folder(folder_.path(), {3, 16, 16}, options)), InputError);
  options.skip_corrupt = true;
  EXPECT_EQ(read_image_folder(folder_.path(), {3, 16, 16}, options)->data.train->size(), 5);
}

TEST_F(Pictures, DamagedOnesAreReplacedByTheNextOfTheirClass) {
  folder_.write("train/cat/c.jpeg", jpeg_damaged_inside());
  folder_.write("train/cat/a.jpg", cmyk_jpeg());
  ImageFolderOptions options;
  options.skip_corrupt = true;
  const auto folder = read_image_folder(folder_.path(), {3, 16, 16}, options);
  std::vector<float> damaged(3 * 16 * 16);
  std::vector<float> next(damaged.size());
  for (int again = 0; again < 2; ++again) folder->data.train->read(2, 7, Layout::nchw, damaged);
  folder->data.train->read(0, 7, Layout::nchw, next);
  EXPECT_EQ(damaged, next);
  const std::vector<std::string> lines = folder->replaced->take();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("/train/cat/c.jpeg: "), std::string::npos) << lines[0];
  EXPECT_TRUE(folder->replaced->take().empty());

  options_.skip_corrupt = true;
  std::vector<std::string> said_lines;
  EXPECT_EQ(run(options_, &said_lines).skipped_images, 1);
  EXPECT_TRUE(said(said_lines, "corrupt pictures replaced by others of their class: 1 ("));

  for (const char* name : {"a.jpg", "b.JPEG"}) folder_.write(std::string("train/cat/") + name, jpeg_damaged_inside());
  EXPECT_THROW(static_cast<void>(run(options_)), Error);
}

TEST_F(Pictures, WholeOnesMayHaveBytesBehindTheEnd) {
  folder_.write("train/cat/b.JPEG", small_jpeg() + "appended by a camera");
  EXPECT_EQ(refusal(), "");
}

TEST_F(Pictures, OtherFilesAreCounted) {
  for (const char* name : {"x.gif", "y.GIF", "notes"}) folder_.write(std::string("train/dog/") + name, "x");
  folder_.write("val/cat/x.txt", "x");
  std::vector<std::string> lines;
  static_cast<void>(run(options_, &lines));
  EXPECT_TRUE(
      said(lines, "files that are not pictures by their names are skipped: 1 without extension, 2 .gif, 1 .txt"));
  fs::create_directories(folder_.file("train/owl"));
  folder_.write("train/owl/a.gif", "x");
  fs::copy(folder_.file("val/cat"), folder_.file("val/owl"));
  EXPECT_NE(refusal().find("/train/owl: has no picture (JPEG, PNG or WebP), only 1 .gif"), std::string::npos)
      << refusal();
}

TEST_F(Pictures, CheckingThemCanBeStopped) {
  std::vector<std::string> lines;
  const TrainNetResult result = train_net(
      options_, [&](const std::string& line) { lines.push_back(line); }, [] { return true; });
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(lines, std::vector<std::string>{"stopped while the pictures were checked"});
}

TEST_F(Pictures, AnEvaluationDoesNotReadTheTrainingPart) {
  folder_.write("train/cat/b.JPEG", "");
  options_.evaluate = true;
  EXPECT_EQ(refusal(), "");
  options_.evaluate = false;
  EXPECT_NE(refusal().find("b.JPEG: is empty"), std::string::npos);
}

}  // namespace
}  // namespace perfpred
