"""`tf.image`: resizing, cropping, flipping and colors of images."""

from mirrax.tf.image.colors import *  # noqa: F403
from mirrax.tf.image.comparing import image_gradients as image_gradients
from mirrax.tf.image.comparing import psnr as psnr
from mirrax.tf.image.comparing import ssim as ssim
from mirrax.tf.image.comparing import total_variation as total_variation
from mirrax.tf.image.cropping import *  # noqa: F403
from mirrax.tf.image.flipping import *  # noqa: F403
from mirrax.tf.image.resizing import *  # noqa: F403
from mirrax.tf.io.images import *  # noqa: F403
