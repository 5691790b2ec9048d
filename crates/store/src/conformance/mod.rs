//! One suite for every store and every stack of layers.
