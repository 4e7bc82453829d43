"""Sizes, parts and colors of images."""

# The programs are data: dense, each read as a whole.
# ruff: noqa


def _im(np, batch=True, dt="f"):
    r = np.random.RandomState(0)
    a = r.rand(2, 5, 6, 3).astype("f")
    if dt != "f":
        a = (a * 255).astype(dt)
    return a if batch else a[0]


def resizes(tf, np):
    a = _im(np)
    out = []
    for m in ("bilinear", "nearest", "lanczos3", "lanczos5"):
        for s in ([3, 4], [10, 9], [5, 6], [7, 3]):
            out.append(tf.image.resize(a, s, method=m))
    return out


def resize_more(tf, np):
    a = _im(np, False)
    return [
        tf.image.resize(a, [4, 12], preserve_aspect_ratio=True),
        tf.image.resize(a, (3, 3), antialias=True),
        tf.image.resize(_im(np, dt="uint8"), [3, 3]),
        tf.image.resize(
            _im(np, dt="uint8"), [3, 3], method=tf.image.ResizeMethod.NEAREST_NEIGHBOR
        ),
        tf.image.resize_with_crop_or_pad(a, 3, 8),
        tf.image.resize_with_crop_or_pad(a, 8, 3),
        tf.image.resize_with_pad(a, 8, 8),
        tf.image.resize_with_pad(_im(np), 3, 9),
    ]


def crops(tf, np):
    a = _im(np, False)
    return [
        tf.image.central_crop(a, 0.5),
        tf.image.central_crop(_im(np), 0.7),
        tf.image.crop_to_bounding_box(a, 1, 2, 3, 2),
        tf.image.pad_to_bounding_box(a, 1, 2, 8, 9),
        tf.image.flip_left_right(a),
        tf.image.flip_up_down(a),
        tf.image.rot90(a),
        tf.image.rot90(_im(np), k=3),
        tf.image.transpose(a),
    ]


def crop_err(tf, np):
    tf.image.crop_to_bounding_box(_im(np, False), 1, 2, 30, 2)


def crop_err2(tf, np):
    tf.image.central_crop(_im(np, False), 1.5)


def pad_err(tf, np):
    tf.image.pad_to_bounding_box(_im(np, False), 1, 2, 3, 2)


def colors(tf, np):
    a = _im(np, False)
    u = _im(np, False, "uint8")
    return [
        tf.image.adjust_brightness(a, 0.2),
        tf.image.adjust_brightness(u, 0.2),
        tf.image.adjust_contrast(a, 2.0),
        tf.image.adjust_contrast(u, 0.5),
        tf.image.adjust_gamma(a, 0.5),
        tf.image.adjust_gamma(u, 0.5, 2),
        tf.image.per_image_standardization(a),
        tf.image.per_image_standardization(np.zeros((2, 2, 3), "f")),
        tf.image.rgb_to_grayscale(a),
        tf.image.rgb_to_grayscale(u),
        tf.image.grayscale_to_rgb(tf.constant(a[..., :1])),
    ]


def hsv(tf, np):
    a = _im(np, False)
    return [
        tf.image.rgb_to_hsv(a),
        tf.image.hsv_to_rgb(a),
        tf.image.adjust_hue(a, 0.2),
        tf.image.adjust_saturation(a, 0.5),
        tf.image.adjust_saturation(a, 3.0),
        tf.image.rgb_to_hsv(
            np.array(
                [[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.5, 0.5, 0.0], [0.0, 1.0, 1.0]]],
                "f",
            )
        ),
    ]


def hue_int(tf, np):
    u = _im(np, False, "uint8")
    return [tf.image.adjust_hue(u, -0.3), tf.image.adjust_saturation(u, 0.5)]


def dtypes(tf, np):
    a = _im(np, False)
    u = _im(np, False, "uint8")
    c = tf.image.convert_image_dtype
    return [
        c(a, tf.uint8),
        c(u, tf.float32),
        c(u, tf.uint16),
        c(u.astype("int32") * 1000, tf.uint8),
        c(a, tf.float16),
        c(a * 2, tf.uint8, saturate=True),
        c(u, tf.uint8),
    ]


def comparing(tf, np):
    a, b = _im(np), _im(np)[::-1]
    return [
        tf.image.psnr(a, b, 1.0),
        tf.image.total_variation(tf.constant(a)),
        tf.image.total_variation(tf.constant(a[0])),
        tf.image.image_gradients(tf.constant(a)),
        tf.image.psnr(
            tf.constant(_im(np, dt="uint8")),
            tf.constant(_im(np, dt="uint8")[::-1]),
            255,
        ),
    ]


def random_shapes(tf, np):
    a = _im(np)
    I = tf.image
    return [
        list(x.shape)
        for x in (
            I.random_flip_left_right(a),
            I.random_flip_up_down(a[0]),
            I.stateless_random_flip_left_right(a, [1, 2]),
            I.random_crop(a[0], [3, 3, 3])
            if hasattr(I, "random_crop")
            else I.stateless_random_crop(a[0], [3, 3, 3], seed=(1, 2)),
            I.stateless_random_crop(a[0], [3, 3, 3], seed=(1, 2)),
            I.random_brightness(a, 0.2),
            I.random_contrast(a, 0.2, 0.5),
            I.random_hue(a, 0.2),
            I.random_saturation(a, 0.2, 0.5),
            I.stateless_random_brightness(a, 0.2, (1, 2)),
            I.stateless_random_contrast(a, 0.2, 0.5, (1, 2)),
            I.stateless_random_hue(a, 0.2, (1, 2)),
            I.stateless_random_saturation(a, 0.2, 0.5, (1, 2)),
        )
    ]
