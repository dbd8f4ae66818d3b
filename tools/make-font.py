"""Makes inter.woff2 from InterVariable.woff2 (Inter 4.1, npm package inter-ui) with fontTools: python make-font.py InterVariable.woff2"""
import sys
from fontTools.subset import Options, Subsetter, parse_unicodes, save_font
from fontTools.ttLib import TTFont
from fontTools.varLib.instancer import instantiateVariableFont

RANGES = (
    "20-7E,A0-FF,131,152-153,160-161,178,17D-17E,2010-2015,2018-201A,201C-201E,2020-2022,2026,2030,2039-203A,20AC,"
    "2190-2193,2197,2212,2248,2260,2264-2265,25B2,25B6,25BC,25C0,2713"
)
DIGITS = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}

font = instantiateVariableFont(TTFont(sys.argv[1]), {"opsz": 14, "wght": (400, 700)})

# Makes only digits tabular: Inter's own `tnum` feature also widens hyphens and spaces, which looks wrong in text.
gsub = font["GSUB"].table
for index in {i for r in gsub.FeatureList.FeatureRecord if r.FeatureTag == "tnum" for i in r.Feature.LookupListIndex}:
    for table in gsub.LookupList.Lookup[index].SubTable:
        table = getattr(table, "ExtSubTable", table)
        table.mapping = {a: b for a, b in table.mapping.items() if a.split(".")[0] in DIGITS}

options = Options(flavor="woff2", hinting=False)
options.layout_features = ["kern", "mark", "mkmk", "ccmp", "locl", "tnum", "calt", "case"]
subsetter = Subsetter(options)
subsetter.populate(unicodes=parse_unicodes(RANGES))
subsetter.subset(font)
save_font(font, "inter.woff2", options)
