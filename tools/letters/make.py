"""Makes crates/metrics/src/draw/letters.bin: the letters of sheets and previews, from DejaVu Sans.

    pip install pillow==13.0.0
    python tools/letters/make.py /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf crates/metrics/src/draw/letters.bin

A record per letter, in the order of code points: code point (u16, little-endian), advance, columns, rows (u8), left edge and
top edge (i8, from the pen and from the top of capitals), then the rows, 4 bits of coverage per pixel, the first pixel in the
high half of a byte. DejaVu Sans 2.37 and FreeType 2.14 gave the file in the tree.
"""

import struct
import sys

from PIL import Image, ImageDraw, ImageFont

PIXELS = 18

RANGES = [
    (0x0020, 0x007E),  # ASCII
    (0x00A1, 0x00AC),  # Latin-1, without the soft hyphen
    (0x00AE, 0x00FF),
    (0x0100, 0x017F),  # Latin Extended-A
    (0x0192, 0x0192),
    (0x01A0, 0x01B0),  # Vietnamese horns among them
    (0x0218, 0x021B),  # Romanian
    (0x02BB, 0x02BC),
    (0x02C6, 0x02DD),
    (0x0300, 0x030C),  # combining marks: names from macOS are decomposed
    (0x0323, 0x0328),
    (0x0370, 0x03FF),  # Greek
    (0x0400, 0x045F),  # Cyrillic
    (0x0490, 0x0493),
    (0x049A, 0x04A3),
    (0x04AE, 0x04BB),
    (0x04D8, 0x04E9),
    (0x1E9E, 0x1E9E),
    (0x1EA0, 0x1EF9),  # Vietnamese
    (0x2010, 0x2015),
    (0x2018, 0x201E),
    (0x2020, 0x2022),
    (0x2026, 0x2026),
    (0x2030, 0x2030),
    (0x2032, 0x2033),
    (0x2039, 0x203A),
    (0x20AC, 0x20AC),
    (0x2116, 0x2116),
    (0x2122, 0x2122),
    (0x2190, 0x2193),
    (0x2212, 0x2212),
    (0x221E, 0x221E),
    (0x2248, 0x2248),
    (0x2260, 0x2265),
    (0xFFFD, 0xFFFD),
]


def main():
    font = ImageFont.truetype(sys.argv[1], PIXELS, layout_engine=ImageFont.Layout.BASIC)
    capital = -font.getbbox("H", anchor="ls")[1]
    # What the font draws for a letter that it does not have.
    absent = bytes(font.getmask("\uE123"))
    records = []
    for first, last in RANGES:
        for code in range(first, last + 1):
            letter = chr(code)
            if bytes(font.getmask(letter)) == absent:
                continue
            advance = round(font.getlength(letter))
            canvas = Image.new("L", (64, 64), 0)
            ImageDraw.Draw(canvas).text((24, 40), letter, font=font, fill=255, anchor="ls")
            box = canvas.getbbox()
            if box is None:
                records.append(struct.pack("<HBBBbb", code, advance, 0, 0, 0, 0))
                continue
            left, top, right, bottom = box
            wide, high = right - left, bottom - top
            if 0x300 <= code < 0x370:
                advance = 0
            record = struct.pack("<HBBBbb", code, advance, wide, high, left - 24, top - 40 + capital)
            values = [(v * 15 + 127) // 255 for v in canvas.crop(box).tobytes()]
            values += [0] * (len(values) % 2)
            record += bytes(a << 4 | b for a, b in zip(values[::2], values[1::2]))
            records.append(record)
    data = b"".join(records)
    with open(sys.argv[2], "wb") as file:
        file.write(data)
    print(len(records), "letters,", len(data), "bytes, capitals of", capital, "pixels")


main()
