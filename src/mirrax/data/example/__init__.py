"""`tf.train.Example`: named lists of bytes, floats or integers, in Protobuf's format.

    Example   { Features features = 1; }
    Features  { map<string, Feature> feature = 1; }   // entries { key = 1; value = 2; }
    Feature   { BytesList = 1, FloatList = 2 or Int64List = 3 }
    *List     { repeated value = 1; }                 // numbers are packed, or not

Nothing here needs the protobuf package.
"""

from mirrax.data.example.features import FixedLenFeature as FixedLenFeature
from mirrax.data.example.features import VarLenFeature as VarLenFeature
from mirrax.data.example.messages import BytesList as BytesList
from mirrax.data.example.messages import Example as Example
from mirrax.data.example.messages import Feature as Feature
from mirrax.data.example.messages import Features as Features
from mirrax.data.example.messages import FloatList as FloatList
from mirrax.data.example.messages import Int64List as Int64List
from mirrax.data.example.parse import parse_example as parse_example
from mirrax.data.example.parse import parse_single_example as parse_single_example
