"""`tf.image`: resizing, cropping, flipping and colors of images."""

from mirrax.tf.image.colors import adjust_brightness as adjust_brightness
from mirrax.tf.image.colors import adjust_contrast as adjust_contrast
from mirrax.tf.image.colors import adjust_gamma as adjust_gamma
from mirrax.tf.image.colors import adjust_hue as adjust_hue
from mirrax.tf.image.colors import adjust_saturation as adjust_saturation
from mirrax.tf.image.colors import convert_image_dtype as convert_image_dtype
from mirrax.tf.image.colors import grayscale_to_rgb as grayscale_to_rgb
from mirrax.tf.image.colors import hsv_to_rgb as hsv_to_rgb
from mirrax.tf.image.colors import (
    per_image_standardization as per_image_standardization,
)
from mirrax.tf.image.colors import random_brightness as random_brightness
from mirrax.tf.image.colors import random_contrast as random_contrast
from mirrax.tf.image.colors import random_hue as random_hue
from mirrax.tf.image.colors import random_saturation as random_saturation
from mirrax.tf.image.colors import rgb_to_grayscale as rgb_to_grayscale
from mirrax.tf.image.colors import rgb_to_hsv as rgb_to_hsv
from mirrax.tf.image.colors import (
    stateless_random_brightness as stateless_random_brightness,
)
from mirrax.tf.image.colors import (
    stateless_random_contrast as stateless_random_contrast,
)
from mirrax.tf.image.colors import stateless_random_hue as stateless_random_hue
from mirrax.tf.image.colors import (
    stateless_random_saturation as stateless_random_saturation,
)
from mirrax.tf.image.comparing import image_gradients as image_gradients
from mirrax.tf.image.comparing import psnr as psnr
from mirrax.tf.image.comparing import ssim as ssim
from mirrax.tf.image.comparing import total_variation as total_variation
from mirrax.tf.image.cropping import central_crop as central_crop
from mirrax.tf.image.cropping import crop_to_bounding_box as crop_to_bounding_box
from mirrax.tf.image.cropping import pad_to_bounding_box as pad_to_bounding_box
from mirrax.tf.image.cropping import random_crop as random_crop
from mirrax.tf.image.cropping import stateless_random_crop as stateless_random_crop
from mirrax.tf.image.flipping import flip_left_right as flip_left_right
from mirrax.tf.image.flipping import flip_up_down as flip_up_down
from mirrax.tf.image.flipping import random_flip_left_right as random_flip_left_right
from mirrax.tf.image.flipping import random_flip_up_down as random_flip_up_down
from mirrax.tf.image.flipping import rot90 as rot90
from mirrax.tf.image.flipping import (
    stateless_random_flip_left_right as stateless_random_flip_left_right,
)
from mirrax.tf.image.flipping import (
    stateless_random_flip_up_down as stateless_random_flip_up_down,
)
from mirrax.tf.image.flipping import transpose as transpose
from mirrax.tf.image.patches import extract_patches as extract_patches
from mirrax.tf.image.resizing import ResizeMethod as ResizeMethod
from mirrax.tf.image.resizing import resize as resize
from mirrax.tf.image.resizing import resize_with_crop_or_pad as resize_with_crop_or_pad
from mirrax.tf.image.resizing import resize_with_pad as resize_with_pad
from mirrax.tf.io.images import *  # noqa: F403
from mirrax.tf.missing_names import names_of

__getattr__ = names_of("tf.image")
